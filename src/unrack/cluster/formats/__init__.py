"""Descriptions of real systems as clusters: Slurm's configuration and nodes, nodes of Kubernetes."""
