"""Storages of the remote tier: a directory as Kafka's LocalTieredStorage has it, and object stores through obstore."""
