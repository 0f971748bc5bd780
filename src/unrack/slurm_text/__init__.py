"""Slurm's own ways of writing things down: hosts, times, memory, resources, records; a leaf that many share."""
