"""Decisions about what clients may do."""
