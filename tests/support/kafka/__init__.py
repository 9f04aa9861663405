"""Apache Kafka 4.3.0 as the oracle: its tools, brokers and clusters in Java."""
