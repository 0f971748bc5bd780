"""What people see of a finished study: one self-contained HTML page."""
