"""The one mutable state of a run: what is free, who waits, who runs, and what everybody holds."""
