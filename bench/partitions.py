"""`python -m bench.partitions`: one node with very many partitions, beside Apache Kafka, and the table."""

from __future__ import annotations

import sys

from bench.partition_experiments import PARTITION_EXPERIMENTS, QUICK_PARTITIONS, PartitionWork
from bench.partition_rows import PARTITION_ROWS
from bench.suite import Suite, run_suite

PARTITIONS = Suite(
    program="bench.partitions",
    rows=PARTITION_ROWS,
    experiments=PARTITION_EXPERIMENTS,
    full=PartitionWork(),
    quick=QUICK_PARTITIONS,
    setting="each on an empty directory, Kafka with 4 GiB heap, Crabka with 4,096 open files",
    name="partitions-latest",
)

if __name__ == "__main__":
    sys.exit(run_suite(PARTITIONS))
