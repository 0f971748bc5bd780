"""Network links of nodes and racks: what jobs send over them themselves, and for devices of other nodes."""
