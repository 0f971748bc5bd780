"""Kinds of things that jobs hold beside nodes, memory and pooled devices: one folder and one line in a table each."""
