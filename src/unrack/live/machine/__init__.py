"""One real machine: who holds which GPUs and cores of it, and running commands on them."""
