"""Topics, their settings, records and offsets, and moves of their replicas between brokers."""
