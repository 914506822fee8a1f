"""Units: the ledger, its audit, quotas and reports."""
