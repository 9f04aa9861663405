"""TLS of the listeners of a node: contexts from settings, replaced when their files change."""
