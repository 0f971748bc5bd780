"""The loop of a run compiled, for rounds in which nothing but nodes is involved."""
