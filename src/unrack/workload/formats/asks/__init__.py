"""What jobs ask beside resources: where, when, after which others, and for which user they run."""
