"""Copies sealed segments of led partitions to the tier, and the tasks that a partition has for it."""
