"""Machines with GPUs as graphs: presets, files, what the tools of a system print, drawings."""
