"""Appends by clients that wait before they enter a partition: for the transaction coordinator."""
