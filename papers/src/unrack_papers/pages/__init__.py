"""What a reproduction leaves behind: a page, tables, figures and the numbers."""
