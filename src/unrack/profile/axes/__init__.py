"""What is varied while an application runs: one file an axis, with its actuators."""
