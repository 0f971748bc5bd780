"""Who goes first and who may pass: each discipline once, over whatever jobs hold."""
