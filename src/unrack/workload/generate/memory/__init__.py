"""Memory and applications for jobs of logs that do not say them."""
