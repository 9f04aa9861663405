"""Generated schemas: kafka-share-coordinator."""
