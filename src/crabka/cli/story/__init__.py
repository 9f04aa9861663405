"""The tour of `make run` in three acts: `story`, `tier_act`, `spark_act`."""
