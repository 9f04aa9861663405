"""Appends by clients and by the node itself: what a batch waits for before it enters a partition."""
