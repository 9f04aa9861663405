"""The metadata quorum of a node: its log, its snapshots, and the driver that appends and applies records.

`raft` runs one replica: read `raft.quorum` first, the interface for the node, then `raft.driver`. `log` has the files
of the metadata log, `snapshots` writes and prunes snapshots, `healing` checks and repairs both. `storage` opens a
metadata directory, `loading` reads it, `formatting` and `initial_controllers` create it, `settings` are those of the
log.

Invariants: a record is durable here before this replica acknowledges it, and committed before it is applied; log and
snapshots together always hold all of the metadata; damage is found before a file is changed.
"""
