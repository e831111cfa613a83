"""Differential privacy of what an agent learns from its private rows: the mechanism, its ledger, its accountants."""
