"""What jobs use of the memory that they ask for, over their progress: read, drawn, thinned, matched to jobs."""
