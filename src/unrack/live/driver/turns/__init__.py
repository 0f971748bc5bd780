"""One turn of the driver, in parts: jobs that come, hold, end; what the policy decides; what may not start."""
