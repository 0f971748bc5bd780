"""Curves of memory use that are drawn: their parameters, the drawing, and a fit to measured series."""
