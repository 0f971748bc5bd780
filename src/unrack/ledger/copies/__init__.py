"""The ledger as others see it, as it was before a plan, and as it may become."""
