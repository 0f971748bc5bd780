"""Failures: when nodes go down, and what each failure did."""
