"""Runs in which jobs change their size."""
