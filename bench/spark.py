"""`python -m bench.spark`: Crabka's Spark source on a tier beside Spark's own Kafka source, and the table.

Both read the same topic, which Apache Kafka 4.3.0 has written to its disk and to its tier.
"""

from __future__ import annotations

import sys

from bench.spark_experiments import QUICK_SPARK, SPARK_EXPERIMENTS, SparkWork
from bench.spark_place import PLACE
from bench.spark_rows import SPARK_ROWS
from bench.suite import Suite, run_suite

SPARK = Suite(
    program="bench.spark",
    rows=SPARK_ROWS,
    experiments=SPARK_EXPERIMENTS,
    full=SparkWork(),
    quick=QUICK_SPARK,
    setting="each in a Spark of its own, local[2], warm; Spark's own source reads from Kafka, Crabka's from its tier",
    name="spark-latest",
    subject="Spark reads a topic",
    baseline="Spark's own Kafka source",
)

if __name__ == "__main__":
    with PLACE:
        sys.exit(run_suite(SPARK))
