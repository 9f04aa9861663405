"""Brokers, elections and a tier in virtual time, beside a model of what has to be readable."""
