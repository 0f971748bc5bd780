"""Free tiles of a torus that are near each other."""
