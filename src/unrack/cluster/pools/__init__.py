"""Pools of devices: what is installed, how a cluster file says it, and what could serve a demand."""
