"""The driver as a service, its rehearsal, and what others read of its state."""
