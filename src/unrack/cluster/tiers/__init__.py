"""Tiers of memory: pools at distances and prices, and the files that say so."""
