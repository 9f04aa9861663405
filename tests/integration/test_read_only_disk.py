"""A real disk that turns read-only during a move, as the move's target and as its source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from os import sync
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from crabka.errors import CrabkaError
from tests.support.clients.load import read_numbers
from tests.support.faults.loop_disk import LoopDisk, LoopDiskError
from tests.support.moves.log_dirs import ReplicaPlace, begin_move, move, places, wait_moved
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

pytestmark = [
    pytest.mark.slow,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
]

SIZE = 96 << 20
TOPIC = "moving"
PADDING = b" " * 20_000
RECORDS = 400
# Eight megabytes take a while, so that there is a middle.
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SLOWLY = {RATE: "1000000", "file.delete.delay.ms": "100"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with ExitStack() as stack:
        try:
            mounted = stack.enter_context(LoopDisk(tmp_path, SIZE))
        except LoopDiskError as error:
            pytest.skip(f"no loop file system here: {error}")
        yield mounted


@pytest.fixture
def node(tmp_path: Path, disk: LoopDisk) -> Iterator[CrabkaProcess]:
    sound = tmp_path / "sound"
    settings = {"log.dirs": f"{sound},{disk.point / 'logs'}", "metadata.log.dir": str(sound)}
    # The fixture of the disk unmounts it, which wants the node to be gone.
    with CrabkaProcess(tmp_path / "node", SLOWLY | settings) as running:
        yield running


def fill(node: CrabkaProcess, first: int = 0, *, patience_ms: int = 60_000) -> dict[int, int]:
    """Send numbered records; the offset of each that was acknowledged."""
    settings = {"bootstrap.servers": node.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer(settings | {"message.timeout.ms": patience_ms})
    found: dict[int, int] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            found[message.offset() or 0] = int(message.value() or b"-1")

    for number in range(first, first + RECORDS):
        producer.produce(TOPIC, b"%d" % number + PADDING, partition=0, on_delivery=on_delivery)
    assert producer.flush(120) == 0
    return found


def partition_on(node: CrabkaProcess, wanted: Path) -> None:
    """Create the topic, and have its partition in this log dir."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)
    wait_until(lambda: len(places(node, TOPIC)) == 1, "the partition is there")
    if places(node, TOPIC)[0].log_dir != wanted:
        move(node, TOPIC)


def future_of(node: CrabkaProcess) -> ReplicaPlace | None:
    return next((place for place in places(node, TOPIC) if place.is_future), None)


def in_middle_of_move(node: CrabkaProcess, source: Path, target: Path) -> dict[int, int]:
    """Fill a partition and have a part of it copied; the records that were acknowledged."""
    partition_on(node, source)
    acknowledged = fill(node)
    assert len(acknowledged) == RECORDS
    begin_move(node, target, TOPIC)

    def is_under_way() -> bool:
        future = future_of(node)
        return future is not None and future.size > 1 << 20

    wait_until(is_under_way, "a part has been copied")
    return acknowledged


def test_the_source_serves_when_the_target_turns_read_only(node: CrabkaProcess, disk: LoopDisk, tmp_path: Path) -> None:
    sound, failing = tmp_path / "sound", disk.point / "logs"
    expected = in_middle_of_move(node, sound, failing)
    disk.turn_read_only()
    wait_until(lambda: future_of(node) is None, "the move was given up")
    expected |= fill(node, RECORDS)
    assert len(expected) == 2 * RECORDS
    assert read_numbers(node.bootstrap_servers, TOPIC, 0) == expected
    assert node.is_alive()
    node.stop()
    disk.mend()
    del node.settings[RATE]  # Nothing is to be seen in the middle of the next move.
    node.start()
    assert read_numbers(node.bootstrap_servers, TOPIC, 0) == expected
    begin_move(node, failing, TOPIC)
    wait_moved(node, failing, TOPIC)
    assert read_numbers(node.bootstrap_servers, TOPIC, 0) == expected


def test_nothing_is_lost_when_the_source_turns_read_only(node: CrabkaProcess, disk: LoopDisk, tmp_path: Path) -> None:
    sound, failing = tmp_path / "sound", disk.point / "logs"
    expected = in_middle_of_move(node, failing, sound)
    # Acknowledged by one replica and not yet on its disk is what a replica loses with its disk.
    sync()
    disk.turn_read_only()
    refused_or_moved = fill(node, RECORDS, patience_ms=5_000)

    def is_decided() -> bool:
        try:
            return future_of(node) is None
        except CrabkaError:
            return False

    wait_until(is_decided, "the move ended in one way or the other")
    assert node.is_alive()
    node.stop()
    disk.mend()
    node.start()
    assert read_numbers(node.bootstrap_servers, TOPIC, 0) == expected | refused_or_moved
    assert len(fill(node, 2 * RECORDS)) == RECORDS

    def names() -> list[str]:
        # What is marked for removal goes in its own time.
        found = [path.name for root in (sound, failing) for path in root.glob(f"{TOPIC}-0*")]
        return [name for name in found if not name.endswith("-delete")]

    wait_until(lambda: names() == [f"{TOPIC}-0"], "the move that went on after the start has ended")
