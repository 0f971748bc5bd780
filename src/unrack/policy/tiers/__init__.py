"""Servers on tiers of memory: allocators as policies, and in one shot."""
