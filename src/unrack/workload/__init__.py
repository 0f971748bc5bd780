"""What is asked: jobs, readers, generators, filters."""
