"""The section of the report on lent memory."""
