"""Charts of a study, as specifications and packed columns."""
