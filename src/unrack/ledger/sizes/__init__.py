"""Jobs that can have several sizes: what these are, and how the ledger changes them."""
