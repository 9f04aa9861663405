"""Tables in their formats: Delta, Iceberg, and Parquet with manifests of Crabka's own.

Reading order:

- `table` is the contract of a table, `tables` opens one by the name of its format.
- `offsets` has the next offsets of a table, in the forms that formats keep, and the rules of a step.
- `data_files` describes a file, `parquet_files` writes files of `row_groups`, `parquet_reading` reads them.
- `store` is the place of a table: a directory (`local_disk`) or an object store.
- `delta_table` with `delta_actions`; `iceberg_table` with `iceberg_catalog`, `iceberg_files` and `iceberg_names`;
  `parquet_table` with `manifests`.
- `vacuuming` removes the files that no state of a table needs.

Invariants:

- A commit names files that are durable and the offsets after their rows, in one step of the table's own log.
- A commit succeeds only on the state that the table object has seen; there are no locks and no hidden retries.
- Files that no commit names are orphans: no reader sees them, and only a vacuum removes them, after a grace.
"""
