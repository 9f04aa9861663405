"""The group coordinator: members and committed offsets of consumer groups, kept in `__consumer_offsets`."""
