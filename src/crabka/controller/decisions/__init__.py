"""Decisions over metadata: pure functions from an image and a request to records and an answer.

One module per group of requests: `topics`, `partitions`, `configs`, `features`, `quotas`, `producer_ids`;
`registration`, `heartbeats` and `sessions` for brokers; `partition_change` is the one place that decides who leads,
who is in sync and who is eligible, and `leadership`, `alter_partition`, `reassignments` and `elect_leaders` use it.

Invariants: no clock, no loop, no randomness of their own: the time and the rng are arguments; a refused request
returns no records; the records of one request are one batch.
"""
