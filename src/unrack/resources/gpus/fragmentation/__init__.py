"""Fragmentation of GPUs (Weng et al., ATC 2023): what is free and of no use to those who come, now and over time."""
