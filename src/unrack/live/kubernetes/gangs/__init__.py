"""Gangs of pods: which pods belong together, what they ask as one job, and how all of them are bound or none."""
