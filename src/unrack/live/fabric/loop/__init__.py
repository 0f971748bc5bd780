"""Loop devices of this machine as stand-ins for drives behind a fabric."""
