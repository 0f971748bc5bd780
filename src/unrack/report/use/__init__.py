"""The section of the report on memory that jobs use, of what they hold and asked for."""
