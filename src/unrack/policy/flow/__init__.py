"""Flow rounds: all that wait are placed together, at least total cost, by min-cost flow."""
