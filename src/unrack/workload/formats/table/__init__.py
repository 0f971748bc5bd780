"""Workloads in tables: CSV and Parquet, and columns with other names."""
