"""What a live scheduler writes down before it acts, on disk: records in order, and a lock for one instance only."""
