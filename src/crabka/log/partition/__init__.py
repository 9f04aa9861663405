"""The log of one partition: appends, reads, truncation, retention, flushes, and the views that other parts have of it.

Read `partition_log` first, then `state` (segments, offsets and epochs, which all others share), `append` and
`validation` (what happens to a batch before it is written), `reader` and `reads`, `flushing` and `durability`,
`shrinking`, and last the views of replication (`copying`), tiering, cleaning, moves and healing.

Invariants: offsets rise; `log_start_offset` <= last stable offset <= high watermark <= `log_end_offset`; one flush of
a log at a time; nothing above the recovery point is served after a crash before it was checked; a batch is never
changed after it was written, except where Kafka's format says so, or to undo what the disk changed.
"""
