"""Workloads of Kubernetes."""
