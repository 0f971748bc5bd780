"""Devices that pods claim (dynamic resource allocation): pools, claims, what fits, and which claim is given what."""
