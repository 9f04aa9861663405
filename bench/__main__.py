"""`python -m bench`: one node of each broker in turn, and the table."""

from __future__ import annotations

import sys

from bench.experiments import EXPERIMENT_FUNCTIONS, QUICK, Scale
from bench.rows import ROWS
from bench.suite import Suite, run_suite

ONE_NODE = Suite(
    program="bench",
    rows=ROWS,
    experiments=EXPERIMENT_FUNCTIONS,
    full=Scale(),
    quick=QUICK,
    setting="each on an empty directory, Kafka with 1 GiB heap and warm",
    name="latest",
)

if __name__ == "__main__":
    sys.exit(run_suite(ONE_NODE))
