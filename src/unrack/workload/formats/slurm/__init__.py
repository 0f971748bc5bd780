"""Jobs as Slurm tells of them: ``sacct`` for what was, ``squeue`` and ``scontrol show job`` for what is."""
