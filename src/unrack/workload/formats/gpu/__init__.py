"""Lists of jobs on GPUs, each in the layout in which it was published, and measured run times."""
