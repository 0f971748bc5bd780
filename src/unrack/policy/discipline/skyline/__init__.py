"""A plan of the future: what is free at every moment to come, and when waiting jobs are to start."""
