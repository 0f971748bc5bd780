"""A running system of servers improved move by move."""
