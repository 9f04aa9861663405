"""What Apache Kafka 4.3.0 wrote and sent: golden files, frames and rows."""
