"""Which job goes first and which may pass: each discipline once, over whatever jobs hold."""
