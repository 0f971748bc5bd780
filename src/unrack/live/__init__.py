"""The real worlds: what unrack does to machines, beyond simulating them."""
