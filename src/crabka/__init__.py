"""Crabka: a Kafka-compatible log with tiered storage whose cold tier is a Spark table."""

__version__ = "0.1.0"
