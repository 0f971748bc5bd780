"""Policies around another: what all of them have."""
