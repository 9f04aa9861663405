"""The broker: partitions that it leads, the requests that it serves, and the node that holds them together."""
