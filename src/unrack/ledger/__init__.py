"""The one mutable state of a run: what is free, which jobs wait, which run, and what each holds."""
