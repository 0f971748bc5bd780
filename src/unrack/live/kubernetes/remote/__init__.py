"""GPUs of other nodes for pods: a server pod where the GPUs are, and its address for the client."""
