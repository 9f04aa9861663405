"""Generated schemas: kafka-raft."""
