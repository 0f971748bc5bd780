"""Slurm as the driver sees it: its jobs one by one, what holds them back, and its orders."""
