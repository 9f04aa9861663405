"""The broker's side of tiered storage (KIP-405): copying, retention, deletion and reading of remote segments.

Read `manager` first: it starts and stops the tasks of a partition with its role. Then:

- `partition_tasks`: the loops of one partition, and what they wait for
- `copy`: which segments are copied, and one copy
- `expire`: retention, abandoned uploads, deleted topics, and topics that are not tiered any more
- `metadata`: `TierMetadata`, which has its manager once the metadata topic answers
- `read`: fetches and searches by time below the local log start; `read.healing` verifies every batch
- `bootstrap`: how a replica begins after what the tier holds

`assembly` builds all of it, `limits` bounds threads and bytes, `tools` is what the tasks share. The walk of a copy
is in ARCHITECTURE.md.

Invariants: a segment leaves the disk only if the tier and the disk both have it durably. The log start is durable
before anything is deleted. A step in the life of a segment is stored before it is taken. The lineage of leader
epochs decides which segments belong to a log, offsets alone never do.
"""
