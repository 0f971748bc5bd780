"""What a cluster costs: prices of its parts, and the bill."""
