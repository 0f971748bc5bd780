"""The simulated world: events, speeds, faults."""
