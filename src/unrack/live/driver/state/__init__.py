"""What the driver knows: the entries of jobs, the core that it tells, and what a journal keeps."""
