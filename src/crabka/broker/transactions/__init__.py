"""The transaction coordinator: producers, their epochs, and the end of transactions (KIP-98, KIP-890).

`transaction` is the core of one transactional id; `transitions` and `state` decide what may follow. `coordinator` is
the shell, with one `shard` per partition of `__transaction_state`. The end of a transaction goes from `markers`
(retries) through `cluster_markers` (leaders) to `local_markers` (partitions of this node). `verification` and
`cluster_partition_adder` ask the coordinator whether a transaction is open.

Invariant: the current snapshot of an id is in the log; an outcome that is in the log reaches all partitions.
"""
