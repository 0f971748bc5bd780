"""Instances of one group that may only share a node with so many others of it."""
