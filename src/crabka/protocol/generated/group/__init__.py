"""Generated schemas: kafka-group-coordinator."""
