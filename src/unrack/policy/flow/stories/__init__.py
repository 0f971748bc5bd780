"""Rounds, told: their numbers, their networks, and why jobs wait."""
