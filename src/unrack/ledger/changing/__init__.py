"""Jobs that change while they run or wait: what they can become, and how the ledger changes them."""
