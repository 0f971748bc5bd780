"""Power: what nodes draw by state and load, a cap that jobs share, and idle nodes that are switched off."""
