"""Decisions over metadata: pure functions from an image and a request to records and an answer."""
