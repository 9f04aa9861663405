"""What tests share; no test imports another test module.

- `async_tests`: the decorator of coroutine tests. `scripts`: tests as text files, rewritten by `pytest --rewrite`.
- `nodes`, `clusters`, `quorum`, `clients`, `coordinators`, `wire`: what stands around the code under test.
- `storage`, `moves`, `tiers`, `tier_topic`, `spark`: logs, log dirs, the tier, its metadata and tables.
- `recorded`, `kafka`: the oracles, as golden files and as running Java.
- `faults`: damage of every kind.
- `cluster_sim`, `coordinator_sim`, `kraft_sim`, `power_loss`, `replication`, `tier_sim`: simulations with models and
  invariants; `cluster_process`: the same idea with real processes.
- `leaks`, `order`, `scale`, `seeds`, `time_limit`: rules of every run. `tidy`, `allowances`: rules of the source tree.
"""
