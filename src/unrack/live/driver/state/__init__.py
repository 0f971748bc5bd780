"""What the driver knows: jobs as Slurm shows them, their entries, the core that it tells, and what a journal keeps."""
