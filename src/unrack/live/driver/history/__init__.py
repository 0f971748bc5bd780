"""What really happened, from the journal of a driver: as a result like any other, and beside a simulation of it."""
