"""The driver of a sync as a process that kills itself.

`python -m tests.support.spark.lake_driver ROOT FORMAT JOB STEP COUNT`

The job `sync` brings the topic of `driver_topic` into the table, the job `rewind` rewinds the table to `cut_topic`, and
the job `follow` syncs that, which stops as long as the table is not rewound. It dies by SIGKILL when it reaches the
step for the count-th time; with the count 0 it comes to its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum

from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.rewinding import RewindStep, rewind_table
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import SyncStep, TopicSync
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.plan.history.divergence import LogCutError
from tests.support.spark.lake_topic import InlineRunner, ListTopic

_TRIES = 20
SETTINGS = SyncSettings(decoder=JsonValues((), infers=True), round_bytes=1, min_tasks=2)


def driver_topic() -> ListTopic:
    """Two partitions; every fifth value is bad, and a field appears later."""

    def value(offset: int) -> bytes:
        if offset % 5 == 3:
            return b"{broken"
        return json.dumps({"id": offset} | ({"late": "x"} if offset >= 8 else {})).encode()

    return ListTopic([[value(offset) for offset in range(18)] for _ in range(2)])


def cut_topic() -> ListTopic:
    """The topic after its first partition was cut at offset 10 and filled again, farther than before."""
    topic = driver_topic()
    topic.values[0][10:] = [b"{broken anew" if at % 5 == 3 else b'{"id":-%d}' % at for at in range(10, 25)]
    return topic


def _killing(step: str, count: int) -> Callable[[StrEnum], None]:
    reached = 0

    def on_step(at: StrEnum) -> None:
        nonlocal reached
        reached += at.value == step
        if count and reached == count:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_step


def run(lake: Lake, step: str = "", count: int = 0, topic: ListTopic | None = None) -> None:
    """Bring the topic into the table, or die on the way."""
    source = topic or driver_topic()
    sync = TopicSync(lake, source, InlineRunner(), SETTINGS, topic="orders", on_step=_killing(step, count))
    while sync.run_round() is not None:
        pass


def follow(lake: Lake, step: str, count: int) -> None:
    """Sync the topic that was cut, with many tries for a rewind to come in between."""
    for _ in range(_TRIES):
        with suppress(LogCutError):
            return run(lake, step, count, cut_topic())
    return None


def main() -> None:
    root, table_format, job, step, count = sys.argv[1:]
    lake = Lake(root, table_format, lambda: int(datetime.now(UTC).timestamp() * 1000))
    match job:
        case "rewind":
            rewind_table(lake, "orders", cut_topic(), _killing(RewindStep(step), int(count)))
        case "follow":
            follow(lake, SyncStep(step), int(count))
        case _:
            run(lake, SyncStep(step), int(count))


if __name__ == "__main__":
    main()
