"""Memory that jobs use in the simulated world: how much at a moment, and when they need more than they hold."""
