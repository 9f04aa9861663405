"""Gathering: each module collects the facts of some checks from brokers or from this machine, without judging them."""
