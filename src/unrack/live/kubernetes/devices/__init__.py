"""Devices that pods claim (dynamic resource allocation): pools, claims, what fits, and who is given what."""
