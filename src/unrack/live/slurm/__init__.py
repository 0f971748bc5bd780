"""A real Slurm as the world that a policy drives."""
