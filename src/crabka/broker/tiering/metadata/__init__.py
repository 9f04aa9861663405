"""The metadata of the tier as the broker uses it."""
