"""The metadata of the remote tier in a topic, `__remote_log_metadata`, as Kafka keeps it (KIP-405)."""
