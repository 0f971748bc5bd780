"""Where a job goes, with all that it asks for: nodes, memory and devices chosen together."""
