"""Connections of drivers and tasks: a cluster (`broker_session`) and the objects of a tier (`tier_store`)."""
