"""Metrics of one kind of thing each: cores, memory, pools, tiers, failures, work served."""
