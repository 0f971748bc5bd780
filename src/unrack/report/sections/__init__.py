"""The sections of the page, each with all that it shows of its subject."""
