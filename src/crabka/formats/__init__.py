"""Kafka's files, byte for byte: one parser and one writer per format. PURE.

The log, the tier checks, the tiering of the broker and the Spark planner read the same files; all of them use these
modules. Bytes come in and go out: opening, syncing and repairing files is the caller's duty. Decoders raise
CorruptDataError, which names the place that the caller passed.

In reading order:

- `file_names`: directories and files of a log dir; `object_names`: directories and objects of a tier.
- `offset_index`, `time_index`, `transaction_index`: the indexes of a segment (`index_entries`: what they share).
- `leader_epochs`: `EpochLineage`, which epoch wrote which offsets.
- `checkpoints`: Kafka's text form of offsets and leader epochs.
- `producer_snapshot`: the state of producers at an offset.
- `partition_metadata`, `meta_properties`, `quorum_state`: small files that identify a partition, a directory, a vote.

Invariant: what `encode` returns is what Kafka writes, and `decode(encode(x)) == x`. The golden tests hold both to bytes
written by Apache Kafka.
"""
