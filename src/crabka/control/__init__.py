"""The controller role of a node: its listener, its writes to the metadata, its watch over the brokers."""
