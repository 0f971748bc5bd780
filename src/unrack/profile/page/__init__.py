"""The report of a profile: one page without a network."""
