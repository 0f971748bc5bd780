"""Many runs: grids, kept results, processes."""
