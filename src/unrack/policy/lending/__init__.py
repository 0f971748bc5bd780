"""Policies for memory that nodes lend each other."""
