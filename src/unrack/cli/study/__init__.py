"""Commands that run a study, search for sizes, or look into what was run; and what they print."""
