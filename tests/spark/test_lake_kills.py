"""Syncs by real Sparks whose drivers, Javas and workers are killed at random points, alone and two at once."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.nodes.process import wait_until
from tests.support.scale import scaled
from tests.support.spark.lake_command import LakeCommand, Victim
from tests.support.spark.lake_reader import table_places, table_rows
from tests.support.spark.servers import driver_environment
from tests.support.spark.topics import Place, create_topic, tiered_broker

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

pytestmark = pytest.mark.timeout(scaled(300, 3600))

POINTS = scaled(1, 30)
PARTITIONS = 2
TIERED = {"remote_storage_enable": "true", "segment_bytes": str(1 << 20), "local_retention_ms": "1"}
# A commit takes about a mebibyte: a run after each of these has several to make.
RECORDS = 1_500
PADDING = "." * 2_000
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with tiered_broker(tmp_path_factory.mktemp("kills")) as running:
        yield running


class Scene:
    """A topic that grows, and its table."""

    def __init__(self, place: Place, directory: Path, table_format: str) -> None:
        self.topic = f"orders-{table_format}"
        self.table_format = table_format
        self.lake = directory / "lake"
        self.numbers = [0] * PARTITIONS
        self._place = place
        self._directory = directory
        self._runs = 0
        self._producer = Producer({"bootstrap.servers": place.bootstrap, "linger.ms": 5})
        create_topic(place, self.topic, PARTITIONS, **TIERED)

    def grow(self, generation: int) -> None:
        """Every fifth value is bad, and each generation has a field of its own."""
        refused: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        for number in range(RECORDS):
            partition = number % PARTITIONS
            value = {"id": number, "padding": PADDING, f"since{generation}": number}
            broken = self.numbers[partition] % 5 == 3
            data = b"{broken" if broken else json.dumps(value).encode()
            self._producer.produce(self.topic, value=data, partition=partition, on_delivery=on_delivery)
            self.numbers[partition] += 1
        assert (self._producer.flush(120), refused) == (0, [])

    def start(self) -> LakeCommand:
        self._runs += 1
        arguments = [self.topic, "--to", str(self.lake), "--format", self.table_format, "--value", "json"]
        environment = driver_environment(self._directory / "driver", Path(sys.executable))
        arguments += ["--bootstrap", self._place.bootstrap, "--round-size", "1"]
        return LakeCommand(arguments, environment, self._directory / f"errors-{self._runs}")

    def files(self) -> int:
        return sum(1 for path in self.lake.rglob("*") if path.is_file())

    def expected(self, *, broken: bool) -> list[tuple[int, int]]:
        places = [(partition, offset) for partition in range(PARTITIONS) for offset in range(self.numbers[partition])]
        return [place for place in places if (place[1] % 5 == 3) == broken]

    def check_nothing_is_doubled(self) -> None:
        if self.files():
            places = table_places(self.lake, self.topic, self.table_format)
            assert all(earlier < later for earlier, later in pairwise(places))

    def check_all_is_there(self) -> None:
        assert table_places(self.lake, self.topic, self.table_format) == self.expected(broken=False)
        assert table_places(self.lake, f"{self.topic}_dlq", self.table_format) == self.expected(broken=True)


def kill_at_random_point(scene: Scene, sync: LakeCommand, victim: Victim, rng: random.Random) -> bool:
    """Wait until the table has got some more files, and kill; whether there was a process to kill."""
    wanted = scene.files() + rng.randrange(12)
    killed = False

    def kill_if_there() -> bool:
        nonlocal killed
        killed = scene.files() >= wanted and sync.kill(victim)
        return killed or not sync.is_running()

    wait_until(kill_if_there, f"{wanted} files and a {victim}", timeout_s=PATIENCE_S)
    return killed


@pytest.mark.parametrize(
    "table_format",
    ["delta", pytest.param("iceberg", marks=pytest.mark.soak), pytest.param("parquet", marks=pytest.mark.soak)],
)
def test_no_death_loses_or_doubles_a_row(place: Place, tmp_path: Path, table_format: str, rng: random.Random) -> None:
    scene = Scene(place, tmp_path, table_format)
    kills = 0
    generation = 0
    while kills < POINTS:
        generation += 1
        scene.grow(generation)
        victim = rng.choice(list(Victim))
        with scene.start() as sync:
            if rng.random() < 0.5 or POINTS == 1:
                with scene.start() as other:
                    kills += kill_at_random_point(scene, sync, victim, rng)
                    assert other.wait() == 0, other.errors()
            else:
                kills += kill_at_random_point(scene, sync, victim, rng)
            code = sync.wait()
            # A task whose worker died is done again; the driver neither outlives itself nor its Java.
            assert (code == 0) or victim is not Victim.WORKER, sync.errors()
            if code == 1:
                [sentence] = sync.errors().splitlines()
                assert sentence.startswith("crabka: ")
        scene.check_nothing_is_doubled()
    with scene.start() as last:
        assert last.wait() == 0, last.errors()
    scene.check_all_is_there()
    rows = table_rows(scene.lake, scene.topic, table_format)
    evolved = {name for row in rows for name in row if name.startswith("since")}
    assert evolved == {f"since{number}" for number in range(1, generation + 1)}
