"""Attaching devices of pools to nodes: one small interface, and the drivers behind it."""
