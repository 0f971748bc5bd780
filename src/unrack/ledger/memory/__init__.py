"""Memory of running jobs: which jobs use which node's, what they lack, and leases with less of it."""
