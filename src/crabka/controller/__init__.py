"""Decisions over metadata: pure functions from an image and a wish to records and an answer."""
