"""What jobs of Slurm ask for in their comments, checked by a script when they are submitted: ``docs/slurm-asks.md``."""
