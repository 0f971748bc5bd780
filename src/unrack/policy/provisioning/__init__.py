"""Memory that follows what jobs use: leases that shrink and grow while they run."""
