"""What there is: nodes, racks, failure domains, and the one mutable state."""
