"""An independent audit of a run, from its tables alone."""
