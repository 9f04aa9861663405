"""kill -9 of the real process under load: every acknowledged record is there once and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.load import RecordedLoad, check_load, read_numbers
from tests.support.clients.target import target_node
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
]

PARTITIONS = 3
LOADS: dict[str, dict[str, object]] = {
    "idempotent": {"enable.idempotence": True, "acks": "all", "linger.ms": 1, "batch.num.messages": 50},
    # Without retries a record that failed may be there or not, but never twice; order needs one request in flight.
    "leader-acks": {"acks": 1, "retries": 0, "max.in.flight": 1, "linger.ms": 1, "message.timeout.ms": 5000},
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with small segments, so that crashes hit rolls too."""
    settings = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"}
    with target_node(tmp_path / "node", settings) as running:
        yield running


def _create(node: NodeProcess, *topics: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result(120)


def _wait_acknowledged(load: RecordedLoad, more: int, what: str) -> None:
    goal = load.acknowledged_count + more
    wait_until(lambda: load.acknowledged_count >= goal, f"{what} has {more} more acknowledged records")


def test_acknowledged_records_survive_kills_under_load(node: NodeProcess, rng: random.Random) -> None:
    _create(node, *LOADS)
    loads = {
        topic: RecordedLoad(node.bootstrap_servers, topic, PARTITIONS, settings) for topic, settings in LOADS.items()
    }
    for load in loads.values():
        load.start()
    try:
        for number in range(scaled(3, 50)):
            for topic, load in loads.items():
                _wait_acknowledged(load, rng.randrange(500, 3000), f"round {number} of {topic}")
            node.kill()
            node.start()
    finally:
        for load in loads.values():
            load.stop()
    assert not loads["idempotent"].failed, loads["idempotent"].failed[:3]
    for topic, load in loads.items():
        check_load(node.bootstrap_servers, load, topic, PARTITIONS)


def _send(node: NodeProcess, numbers: range) -> list[int | None]:
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "batch.num.messages": 1, "linger.ms": 0})
    for number in numbers:
        producer.produce(
            "torn", b"%d" % number, partition=0, on_delivery=lambda _error, message: offsets.append(message.offset())
        )
    assert producer.flush(120) == 0
    return offsets


def _active_segment(node: NodeProcess) -> Path:
    return max(node.data_dir.rglob("torn-0/*.log"))


@pytest.mark.parametrize("tail", ["half-batch", "zeros", "noise"])
def test_torn_tail_is_cut_and_nothing_before_it(node: NodeProcess, rng: random.Random, tail: str) -> None:
    _create(node, "torn", partitions=1)
    assert _send(node, range(100)) == list(range(100))
    node.kill()
    segment = _active_segment(node)
    whole = segment.read_bytes()
    torn = {"half-batch": whole[: len(whole) // 200], "zeros": bytes(5000), "noise": rng.randbytes(300)}[tail]
    segment.write_bytes(whole + torn)
    node.start()
    assert read_numbers(node.bootstrap_servers, "torn", 0) == {number: number for number in range(100)}
    assert segment.read_bytes() == whole
    assert _send(node, range(100, 120)) == list(range(100, 120))
    assert read_numbers(node.bootstrap_servers, "torn", 0) == {number: number for number in range(120)}


def test_missing_and_wrong_indexes_are_rebuilt_after_a_crash(node: NodeProcess) -> None:
    _create(node, "torn", partitions=1)
    _send(node, range(2000))
    node.kill()
    segment = _active_segment(node)
    segment.with_suffix(".timeindex").unlink(missing_ok=True)
    segment.with_suffix(".index").write_bytes(b"\x00\x00\x00\x05\x7f\xff\xff\xff" * 20)
    node.start()
    assert read_numbers(node.bootstrap_servers, "torn", 0) == {number: number for number in range(2000)}
