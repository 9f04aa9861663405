"""The job `lake sync`: from a topic to a table, exactly once.

Reading order: `sync_job` goes over topics, `topic_sync` does the rounds of one topic, `rounds` cuts a plan into rounds,
`planner_source` plans, `spark_runner` runs the tasks of a round, `tasks` is one of them and `rolling_writer` its files,
`commits` settles a commit, `dead_letters` has the rows that could not be read, `settings` the checked settings.

Invariants:

- Rows and the offsets after them are one commit, and it builds on the offsets that the round began with.
- Dead letters are committed before the rows, so that no row is in neither table.
- Witnesses of a round are taken, and those of the table verified, before the round reads anything.
- A task that dies, or runs twice, leaves only files that no commit names.
"""
