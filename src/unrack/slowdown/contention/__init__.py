"""Contention in disaggregated memory: how fast a job runs when others use the memory that it uses."""
