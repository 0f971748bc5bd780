"""The part of the ledger that says which job holds which pooled devices."""
