"""Files of workloads: readers, writers and the rules that they share."""
