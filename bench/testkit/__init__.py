"""`python -m bench.testkit`: suites of small tests beside Apache Kafka's broker, as testcontainers would start it."""
