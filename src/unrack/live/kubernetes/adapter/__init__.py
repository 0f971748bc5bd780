"""Kubernetes as the driver sees it: pods of its scheduler's name, the nodes that hold them, bindings."""
