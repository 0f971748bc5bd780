"""Models of batch workloads: their parameters, fitted or published, and what they draw."""
