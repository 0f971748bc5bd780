"""Run times predicted from the past, and policies that plan on them."""
