"""What other distributions and files of a study add to unrack: see ``docs/plugins.md``."""
