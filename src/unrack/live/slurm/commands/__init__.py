"""Slurm through ``squeue``, ``sinfo`` and ``scontrol``, each with a time limit, none through a shell."""
