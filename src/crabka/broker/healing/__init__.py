"""Healing of logs: the check in the background, and repairs from other replicas and from the tier."""
