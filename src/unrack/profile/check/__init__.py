"""Mixes of profiled applications, simulated and run for real."""
