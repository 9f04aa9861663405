"""Generated schemas: kafka-storage."""
