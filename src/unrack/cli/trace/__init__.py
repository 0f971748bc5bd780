"""Commands on files of workloads and of memory that jobs used, and the pages that they print."""
