"""Slurm through its REST service, slurmrestd."""
