"""A batch of servers placed all at once on tiers of memory."""
