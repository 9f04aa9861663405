"""Replays the golden tier slowly, to be killed: `python -m tests.support.tier_topic.replay_child BOOTSTRAP RATE`."""

from __future__ import annotations

import sys
from typing import Any, cast

from crabka.spark.jobs.replay import replay_topic
from crabka.spark.jobs.replay_writer import ReplayTarget
from tests.support.recorded.files import GOLDEN
from tests.support.spark.one_thread import OneThreadSpark

SOURCE = {"tier.uri": f"file://{GOLDEN}/single/tier", "tier.metadata": "listing", "subscribe": "tiered"}


def replay(bootstrap: str, rate: float | None) -> int:
    """Replay all; return how many records were written now."""
    target = ReplayTarget(
        bootstrap=bootstrap, topic="copy", name="replay", transaction_records=7, records_per_second=rate
    )
    return sum(found.records for found in replay_topic(cast("Any", OneThreadSpark()), SOURCE, target))


if __name__ == "__main__":
    replay(sys.argv[1], float(sys.argv[2]))
