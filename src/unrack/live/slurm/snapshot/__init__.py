"""A running Slurm as a study that begins now."""
