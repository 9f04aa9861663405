"""Benchmarks against Apache Kafka 4.3.0: same machine, same clients, alternating runs."""
