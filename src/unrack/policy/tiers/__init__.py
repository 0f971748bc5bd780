"""Servers on tiers of memory: allocators as policies."""
