"""What the report tells of a site."""
