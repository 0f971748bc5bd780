"""What happened to a job, or in a round, told from a run that is simulated once more."""
