"""Readers of machines: what the tools of a system print, and files of one's own; one file a format."""
