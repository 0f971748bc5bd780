"""On which nodes a pod may run beside the pods that are there: affinity to them, spread, ports of nodes."""
