"""Spark and lake tables: sessions, topics, plans, drivers and readers."""
