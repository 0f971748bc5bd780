"""Workloads of short jobs on one GPU each, which may be in another machine."""
