"""Checks of the metadata log and its files, lost entries, and offline repair."""
