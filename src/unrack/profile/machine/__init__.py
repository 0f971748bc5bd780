"""What a machine has: its control groups, tools and devices; and a journal of what is made there."""
