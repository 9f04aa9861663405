"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members reconcile step by step.

Read `messages` and `group` (the core) first. `store` has the state (`state`), which changes by records, one batch at a
time; `deadlines` are those of members. `members` processes heartbeats, `classic_members` the requests of the classic
protocol, `assignment` computes targets with `assignors`, and `reconcile` moves one member towards its target.
`offset_checks` limits commits and fetches. `migration` converts groups between the protocols. `runner` is the shell.

Invariants: only records change the state, so a replay leads to the same state; a failed batch restores it; a partition
has at most one owner at any time.
"""
