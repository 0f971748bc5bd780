"""Flows of least cost in a network."""
