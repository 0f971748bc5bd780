"""What several commands share, and what they print on a terminal."""
