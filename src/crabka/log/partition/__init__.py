"""The log of one partition: appends, reads, truncation, retention, flushes, and the views of other parts of the node.

Read `partition_log` first: it appends, reads, and owns one object for each other duty. All of them work on one
`state` (segments, offsets, epochs, and the steps that several of them take). Then `append` and `validation` (changes
to a batch before it is written), `reader` and `reads`, `flushing` and `durability`, `truncation`, `retention`, and
last the views of replication (`copying`), `tiering`, `cleaning`, `moving` and `healing`.

Invariants: offsets rise; `log_start_offset` <= last stable offset <= high watermark <= `log_end_offset`; one flush of
a log at a time; nothing above the recovery point is served after a crash before it was checked; a batch is never
changed after it was written, except where Kafka's format says so, or to undo what the disk changed.
"""
