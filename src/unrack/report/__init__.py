"""What people see: tables, plots, one HTML file."""
