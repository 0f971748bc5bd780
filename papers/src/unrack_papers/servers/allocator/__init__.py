"""Servers placed one after the other: the allocator of the paper, and two baselines."""
