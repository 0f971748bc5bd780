"""The part of the ledger that says who holds which pooled devices."""
