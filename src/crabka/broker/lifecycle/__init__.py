"""The broker role of a node from start to stop: its parts, its registration, and changes of the metadata."""
