"""Servers placed on tiers of memory one by one."""
