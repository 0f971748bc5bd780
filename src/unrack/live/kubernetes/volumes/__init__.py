"""Volumes that pods claim, which may be on some nodes only."""
