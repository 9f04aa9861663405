"""Damage in logs: how it is found, which batches may replace it, and which log is checked next."""
