"""Generated schemas: kafka-transaction-coordinator."""
