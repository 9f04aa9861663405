"""The metadata of the remote tier in a topic, `__remote_log_metadata`, as Kafka keeps it (KIP-405).

Read `manager` first: changes are published, and count once they are read back. An event goes out through `serde` and
`kafka_event_log`, and comes back through `event_fetcher`, `event_batches`, `assignment` and `metadata_partition`,
which applies it to the state in memory of `crabka.remote.inmemory`. `snapshot` and `snapshot_keeper` shorten the
next start, `boot` waits for the topic. `event_log` is the port of the log, with one in memory for tests.

`reading`, `tier_view` and `tier_check` are for tools that inspect a tier from outside.

Invariants: all brokers accept and refuse the same events, in the order of the topic. Reads of a partition are
refused until its metadata partition is read to its end, and after each election until the new leader confirms what
was read.
"""
