"""Generated schemas: kafka-metadata."""
