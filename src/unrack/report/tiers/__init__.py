"""The section of the report on tiers of memory."""
