"""A really full or read-only disk (a small tmpfs): with two log dirs the node goes on, with one it stops."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.load import read_numbers
from tests.support.clients.target import target_is_jvm, target_node
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
]

SMALL = "24m"
LARGE = "400m"
PARTITIONS = 6
PADDING = b" " * 200_000
MOST_RECORDS = 2_000


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", "-t", "tmpfs", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to mount a tmpfs: {done.stderr}")
        pytest.skip(f"mounting a tmpfs is not permitted: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system with little room."""
    point = tmp_path / "small-disk"
    point.mkdir()
    _mount("-o", f"size={SMALL}", "tmpfs", str(point))
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def _give_room(point: Path) -> None:
    _mount("-o", f"remount,size={LARGE}", "tmpfs", str(point))


# A partition whose disk is gone has no leader: a record for it only waits.
NO_LEADER_MS = 2_000


class Filler:
    """Sends large numbered records one at a time and remembers which were acknowledged."""

    def __init__(self, node: NodeProcess, patience_ms: int = 60_000) -> None:
        """One producer without retries: each answer of the node is seen."""
        settings = {"retries": 0, "message.timeout.ms": patience_ms, "log_level": 0}
        self._node = node
        self._producer = Producer({"bootstrap.servers": node.bootstrap_servers, "acks": "all", **settings})
        self.acknowledged: dict[int, dict[int, int]] = {partition: {} for partition in range(PARTITIONS)}
        self.errors: list[KafkaError] = []

    def send(self, number: int, partition: int) -> bool:
        """Whether the record was acknowledged."""
        before = len(self.errors)
        self._producer.produce("full", b"%d" % number + PADDING, partition=partition, on_delivery=self._delivered)
        wait_until(self._is_answered, "the record is answered")
        return len(self.errors) == before

    def _is_answered(self) -> bool:
        if not self._node.is_alive():
            self._producer.purge()
        self._producer.poll(0.05)
        return len(self._producer) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.partition() or 0][message.offset() or 0] = int(message.value() or b"-1")

    def send_until_refused(self, partition: int) -> None:
        """Fill the disk below a partition."""
        for number in range(MOST_RECORDS):
            if not self.send(number, partition):
                return
        pytest.fail(f"{MOST_RECORDS} records fit on the small disk")


def _create_topic(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic("full", PARTITIONS, 1)])["full"].result(120)


def _partitions_on(disk: Path) -> list[int]:
    return sorted(int(log.parent.name.partition("-")[2]) for log in disk.rglob("full-*/*.log"))


def _check(node: NodeProcess, filler: Filler) -> None:
    for partition, promised in filler.acknowledged.items():
        stored = read_numbers(node.bootstrap_servers, "full", partition)
        assert {offset: stored.get(offset) for offset in promised} == promised


def test_node_goes_on_when_one_of_two_log_dirs_is_full(tmp_path: Path, small_disk: Path) -> None:
    roomy = tmp_path / "roomy-disk"
    roomy.mkdir()
    settings = {"log.dirs": f"{roomy},{small_disk / 'logs'}", "metadata.log.dir": str(roomy)}
    with target_node(tmp_path / "node", settings) as node:
        _create_topic(node)
        wait_until(
            lambda: len([*_partitions_on(small_disk), *_partitions_on(roomy)]) == PARTITIONS, "all partitions exist"
        )
        on_small, on_roomy = _partitions_on(small_disk), _partitions_on(roomy)
        assert len(on_small) >= 2
        assert on_roomy
        filler = Filler(node)
        filler.send_until_refused(on_small[0])
        assert filler.errors[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        assert filler.acknowledged[on_small[0]]
        for partition in on_roomy:
            assert all(filler.send(number, partition) for number in range(3)), filler.errors
        assert not Filler(node, NO_LEADER_MS).send(0, on_small[1])
        assert node.is_alive()
        node.stop()
        _give_room(small_disk)
        node.start()
        _check(node, filler)
        assert all(Filler(node).send(10_000, partition) for partition in range(PARTITIONS))


def test_node_goes_on_without_a_disk_that_is_read_only(tmp_path: Path, small_disk: Path) -> None:
    roomy = tmp_path / "roomy-disk"
    roomy.mkdir()
    settings = {"log.dirs": f"{roomy},{small_disk / 'logs'}", "metadata.log.dir": str(roomy)}
    with target_node(tmp_path / "node", settings) as node:
        _create_topic(node)
        wait_until(
            lambda: len([*_partitions_on(small_disk), *_partitions_on(roomy)]) == PARTITIONS, "all partitions exist"
        )
        on_small, on_roomy = _partitions_on(small_disk), _partitions_on(roomy)
        filler = Filler(node)
        assert all(filler.send(number, partition) for number in range(2) for partition in range(PARTITIONS))
        node.stop()
        _mount("-o", "remount,ro", "tmpfs", str(small_disk))
        node.start()
        again = Filler(node)
        assert all(again.send(10_000, partition) for partition in on_roomy), again.errors
        assert not Filler(node, NO_LEADER_MS).send(10_000, on_small[0])
        assert node.is_alive()
        node.stop()
        _mount("-o", "remount,rw", "tmpfs", str(small_disk))
        node.start()
        _check(node, filler)
        assert all(Filler(node).send(20_000, partition) for partition in range(PARTITIONS))


def test_node_stops_when_its_only_log_dir_is_full_and_comes_back_whole(tmp_path: Path, small_disk: Path) -> None:
    node = target_node(tmp_path / "node", {"log.dirs": str(small_disk / "logs")})
    with node:
        _create_topic(node)
        filler = Filler(node)
        filler.send_until_refused(0)
        assert node.wait_exit() == 1
        if not target_is_jvm():  # The JVM runs without a logger.
            assert str(small_disk) in node.stderr_text()
            assert "No space left on device" in node.stderr_text()
        _give_room(small_disk)
        node.start()
        _check(node, filler)
        assert Filler(node).send(10_000, 0)


def test_node_on_a_full_disk_says_so_at_start(tmp_path: Path, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    if target_is_jvm():
        pytest.skip("kafka-storage format is a separate step there")
    node = target_node(tmp_path / "node", {"log.dirs": str(small_disk / "logs")})
    node.launch()
    assert node.wait_exit() == 1
    assert "No space left on device" in node.stderr_text()
