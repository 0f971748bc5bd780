"""What happened in a run, as tables for people: one file a table."""
