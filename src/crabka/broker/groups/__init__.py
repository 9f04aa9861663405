"""The group coordinator: members and committed offsets of consumer groups, kept in `__consumer_offsets`.

Read `messages` (events and actions) and `classic_group` (the core of a classic group) first. The core consists of
`membership` (state), `joins` and `rebalance`; `member` is one member. `coordinator` is the shell around all cores, with
one `shard` per partition: `records` and `replay` are its log, `offsets` its commits, `opaque` the groups that it only
stores. `consumer` has the groups of the consumer protocol (KIP-848).

Invariants: a core knows no clock, loop or log; a shard serves requests only after its whole log is replicated; an
answer that depends on a record is sent after the record is replicated.
"""
