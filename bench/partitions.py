"""`python -m bench.partitions`: one node with very many partitions, beside Apache Kafka, and the table."""

from __future__ import annotations

import sys

from bench.partition_experiments import PARTITION_EXPERIMENTS, QUICK_PARTITIONS, PartitionWork
from bench.rows import BenchRow, at_most, seen
from bench.suite import Suite, run_suite


def _less(key: str, title: str, unit: str) -> BenchRow:
    return seen(key, title, unit, "partitions", higher_is_better=False)


PARTITION_ROWS = (
    seen("partitions", "partitions, as many as the limits of the machine allow", "partitions", "partitions"),
    _less("create", "create all topics, one request each", "s"),
    _less("create_wait", "longest wait of another producer while topics are created", "ms"),
    _less("write", "a record to each partition", "s"),
    _less("write_wait", "longest wait of another producer while records are written", "ms"),
    _less("memory", "resident memory for each partition, written once", "KB"),
    _less("descriptors", "open descriptors after the writes", "files"),
    _less("stop", "clean stop", "s"),
    _less("start_clean", "start after a clean stop, until all partitions have a leader", "s"),
    _less("start_killed", "start after kill -9, until all partitions have a leader", "s"),
    _less("delete", "delete all topics, one request each", "s"),
    _less("delete_wait", "longest wait of another producer while topics are deleted", "ms"),
    at_most("longest_wait", "longest wait of another producer overall", "ms", "partitions", 1000.0),
)
PARTITIONS = Suite(
    program="bench.partitions",
    rows=PARTITION_ROWS,
    experiments=PARTITION_EXPERIMENTS,
    full=PartitionWork(),
    quick=QUICK_PARTITIONS,
    setting="each on an empty directory, Kafka with 4 GiB heap, Crabka with 4,096 open files",
    name="partitions-latest",
    subject="One node with very many partitions",
)

if __name__ == "__main__":
    sys.exit(run_suite(PARTITIONS))
