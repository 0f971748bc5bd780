"""Jobs that are stopped for others: by partition tier or quality of service."""
