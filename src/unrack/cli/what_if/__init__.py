"""``unrack what-if``: a question about a moment, from files to words."""
