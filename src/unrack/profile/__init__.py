"""Measurements of applications on this machine, and what unrack's models read of them."""
