"""Which job is first, by what accounts have used and were promised: Slurm's multifactor priority and fair share."""
