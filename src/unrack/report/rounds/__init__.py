"""Rounds in which many jobs are placed together: a picture of one, and a section of the page on all."""
