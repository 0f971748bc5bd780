"""Formats of traces and generators of workloads that single papers use; unrack finds them as plug-ins."""
