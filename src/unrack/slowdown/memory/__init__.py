"""Speeds of jobs that use memory of other nodes in one run."""
