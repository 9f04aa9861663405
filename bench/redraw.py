"""`python -m bench.redraw`: tables and plots of the kept results again, from their samples. Nothing is measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bench.__main__ import ONE_NODE
from bench.cluster import CLUSTER
from bench.moves import MOVES
from bench.report import RESULTS
from bench.spark import SPARK
from bench.suite import Suite
from bench.testkit.suites import TESTKIT
from bench.tier import TIER

# The names of result files in bench/results.
KEPT: Final[Mapping[str, Suite[Any]]] = {
    "kafka-4.3.0": ONE_NODE,
    "cluster-kafka-4.3.0": CLUSTER,
    "tier-kafka-4.3.0": TIER,
    "moves-kafka-4.3.0": MOVES,
    "spark-stock-4.2": SPARK,
    "testkit-kafka-4.3.0": TESTKIT,
}


def redraw() -> None:
    """Write all kept results again."""
    for name, suite in KEPT.items():
        found = json.loads((RESULTS / f"{name}.json").read_text())
        for path in suite.report(found["samples"], found["facts"]).write(name):
            print(f"wrote {path}")


if __name__ == "__main__":
    redraw()
