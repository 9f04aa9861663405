"""Clusters of real processes, of Crabka or of Apache Kafka, with faults, load and the checks of what they did."""
