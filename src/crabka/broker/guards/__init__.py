"""What clients need to be allowed before the handlers of a broker answer them (Kafka's KafkaApis)."""
