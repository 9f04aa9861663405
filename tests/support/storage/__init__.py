"""Logs on disks in memory: small, tiered, with transactions, under many flushers."""
