"""What drives Slurm: readings into events, decisions into orders, all of it in a journal."""
