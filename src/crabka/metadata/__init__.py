"""Cluster metadata as Kafka's KIP-631 records, and the immutable image that they add up to. PURE."""
