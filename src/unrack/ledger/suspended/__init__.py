"""Jobs that are suspended: they hold no cores, and all else that they did; how that is done, and what plans expect."""
