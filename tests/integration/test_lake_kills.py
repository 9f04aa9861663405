"""Drivers of syncs that are killed, alone and beside others: the table is the topic all the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crabka.spark.lake.maintenance.rewinding import RewindStep, rewind_table
from crabka.spark.lake.syncing.topic_sync import SyncStep
from tests.support.scale import scaled, soaking
from tests.support.spark.lake_driver import cut_topic, driver_topic, run
from tests.support.spark.lake_reader import table_places, table_rows
from tests.support.spark.lake_tables import ALL_FORMATS, lake_of

pytestmark = [
    pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections"),
    pytest.mark.timeout(0 if soaking() else 300),
]

ROOT = Path(__file__).parents[2]
ROUNDS = scaled(1, 10)


def start(
    root: str, table_format: str, step: SyncStep | RewindStep, count: int, job: str = "sync"
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.spark.lake_driver", root, table_format, job, step.value, str(count)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE)


@pytest.mark.parametrize("table_format", ALL_FORMATS)
def test_drivers_that_are_killed_lose_and_double_nothing(tmp_path: Path, table_format: str, rng: random.Random) -> None:
    for number in range(ROUNDS):
        lake = lake_of(tmp_path / str(number), table_format)
        deaths = [(rng.choice(list(SyncStep)), rng.choice([1, 2])) for _ in range(2)]
        drivers = [start(lake.root, table_format, *death) for death in deaths]
        for driver in drivers:
            _, errors = driver.communicate(timeout=240)
            # The one that finds nothing left to do comes to its end before it reaches its step.
            assert driver.returncode in (0, -signal.SIGKILL), errors.decode()
        run(lake)
        topic = driver_topic()
        places = [(partition, offset) for partition in range(2) for offset in range(len(topic.values[0]))]
        good = [place for place in places if place[1] % 5 != 3]
        bad = [place for place in places if place[1] % 5 == 3]
        assert table_places(Path(lake.root), "orders", table_format) == good, deaths
        assert table_places(Path(lake.root), "orders_dlq", table_format) == bad, deaths


@pytest.mark.parametrize("table_format", ALL_FORMATS)
def test_rewinds_that_are_killed_leave_no_row_of_the_old_log(
    tmp_path: Path, table_format: str, rng: random.Random
) -> None:
    """In a soak run two rewinds and a sync at once, each of which may be killed."""
    topic = cut_topic()
    for number in range(ROUNDS):
        lake = lake_of(tmp_path / str(number), table_format)
        run(lake)
        deaths: list[tuple[SyncStep | RewindStep, int, str]] = [
            (rng.choice(list(RewindStep)), scaled(1, rng.choice([0, 1, 1])), "rewind") for _ in range(scaled(1, 2))
        ]
        deaths += [(rng.choice(list(SyncStep)), rng.choice([0, 1, 2]), "follow")] * scaled(0, 1)
        drivers = [start(lake.root, table_format, *death) for death in deaths]
        for driver in drivers:
            _, errors = driver.communicate(timeout=240)
            # The one that finds nothing to take back comes to its end.
            assert driver.returncode in (0, -signal.SIGKILL), errors.decode()
        rewind_table(lake, "orders", topic)
        run(lake, topic=topic)
        rows = table_rows(Path(lake.root), "orders", table_format)
        found = [(row["kafka_partition"], row["kafka_offset"], row["id"]) for row in rows]
        places = [(partition, offset) for partition in range(2) for offset in range(len(topic.values[partition]))]
        good = [place for place in places if place[1] % 5 != 3]
        assert found == [(p, at, -at if p == 0 and at >= 10 else at) for p, at in good], deaths
        bad = [place for place in places if place[1] % 5 == 3]
        assert table_places(Path(lake.root), "orders_dlq", table_format) == bad, deaths
