"""What would happen if: a moment of a system with a change, simulated beside the same moment without it."""
