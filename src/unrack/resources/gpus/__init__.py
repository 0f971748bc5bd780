"""GPUs as they are connected: machines, what jobs claim of them, how that is placed, and what it does to their speed."""
