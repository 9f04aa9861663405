"""Options of the source: the names of Spark's own Kafka source, and those of the tier.

Pure: no broker and no store is asked, and nothing of Spark is imported. `source_options` has the checked value that the
driver and the tasks share. `names` reads names and single values, `selection` says which partitions are read between
which limits, `where` reads conditions. `offset_json` and `java_patterns` translate the forms of Spark's Kafka source.
"""
