"""Workloads drawn from specifications."""
