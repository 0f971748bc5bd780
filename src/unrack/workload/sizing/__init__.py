"""Jobs that can have several sizes: what a trace says of them, and rigid jobs that are made so."""
