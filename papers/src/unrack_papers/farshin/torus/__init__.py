"""Cores near each other on a torus (section 6)."""

from unrack_papers.farshin.torus import placement, scaling

REPRODUCTIONS = (placement.REPRODUCTION, scaling.REPRODUCTION)
