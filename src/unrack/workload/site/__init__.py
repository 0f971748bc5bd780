"""What jobs say that a site looks at: where they may run, what they count for, what they wait for."""
