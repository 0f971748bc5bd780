"""Curves from runs, with what they may be wrong by."""
