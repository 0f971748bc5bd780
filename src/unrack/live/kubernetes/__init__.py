"""A running Kubernetes."""
