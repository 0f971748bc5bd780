"""GPUs as they are connected: machines, what jobs claim of them, and what that does to their speed."""
