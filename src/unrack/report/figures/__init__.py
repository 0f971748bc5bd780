"""The charts of a report as files, for papers and slides."""
