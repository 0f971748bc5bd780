"""Where and when: orders, placements, backfill."""
