"""`python -m bench.moves`: moves of replicas between log dirs beside Apache Kafka's and beside `cp`, and the table."""

from __future__ import annotations

import sys

from bench.moves_experiments import MOVE_EXPERIMENTS, QUICK_MOVES, MoveWork
from bench.moves_rows import MOVE_ROWS
from bench.suite import Suite, run_suite

MOVES = Suite(
    program="bench.moves",
    rows=MOVE_ROWS,
    experiments=MOVE_EXPERIMENTS,
    full=MoveWork(),
    quick=QUICK_MOVES,
    setting="each on two empty log dirs of one disk, Kafka with 1 GiB heap",
    name="moves-latest",
    subject="Moves between log dirs",
)

if __name__ == "__main__":
    sys.exit(run_suite(MOVES))
