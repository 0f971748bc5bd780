"""Memory of running jobs: who uses whose, what they lack, and leases with less of it."""
