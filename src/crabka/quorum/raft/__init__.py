"""The driver of the consensus core: one replica of the metadata quorum as a node sees it.

Read `quorum` first, then `driver` (the task that owns the core and carries out its actions), `log` (the log and
snapshots as the core sees them), `leadership`, `applier` (from committed entries to images), `sender` and `answers`,
`state_file`.

Invariants: what the core asks to be durable is synced before an answer that depends on it leaves; entries are applied
in order and only when they are committed; every waiter is answered when leadership ends.
"""
