"""One real machine: which command holds which GPUs and cores of it, and running commands on them."""
