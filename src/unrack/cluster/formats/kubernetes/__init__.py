"""Kubernetes: its nodes, and the queues of Kueue and Volcano."""
