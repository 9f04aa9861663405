"""Requests to other brokers: one connection to each, and queues of what is to be sent."""
