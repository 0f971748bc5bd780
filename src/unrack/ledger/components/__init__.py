"""Heterogeneous jobs: what each component asks and holds, where its first component stands for all of them."""
