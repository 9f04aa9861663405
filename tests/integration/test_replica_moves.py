"""Replicas of a real node move between its log dirs while producers write and consumers read."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.load import RecordedLoad, read_numbers
from tests.support.clients.raw_request import move_replica
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
]

TOPIC = "moving"
SETTINGS = {"log.segment.bytes": "1048576", "file.delete.delay.ms": "100", "log.segment.delete.delay.ms": "100"}


def _is_in(log_dir: Path, partition: int) -> bool:
    return (log_dir / f"{TOPIC}-{partition}").is_dir()


def _wait_for(load: RecordedLoad, count: int) -> None:
    wait_until(lambda: load.acknowledged_count > count, f"{count} records are acknowledged")


def _wait_moved(partition: int, source: Path, target: Path) -> None:
    wait_until(lambda: _is_in(target, partition) and not _is_in(source, partition), f"{partition} is in {target}")


def test_a_partition_moves_to_and_fro_under_load(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    settings = {**SETTINGS, "log.dirs": f"{one},{two}", "metadata.log.dir": str(one)}
    with CrabkaProcess(tmp_path / "node", settings) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(120)
        load = RecordedLoad(node.bootstrap_servers, TOPIC, 2, {"enable.idempotence": True, "linger.ms": 1})
        load.start()
        try:
            for turn in range(4):
                _wait_for(load, 5_000 * (turn + 1))
                for partition in range(2):
                    source, target = (one, two) if _is_in(one, partition) else (two, one)
                    assert move_replica(node.port, TOPIC, partition, str(target)) == 0
                    _wait_moved(partition, source, target)
        finally:
            load.stop()
        assert load.failed == []
        _check(node, load)
        node.kill()
        node.start()
        _check(node, load)
        leftovers = [path.name for path in (*one.iterdir(), *two.iterdir()) if path.name.endswith(("-future", ".json"))]
        assert leftovers == []


def _check(node: CrabkaProcess, load: RecordedLoad) -> None:
    for partition in range(2):
        expected = {offset: number for (index, offset), number in load.acknowledged.items() if index == partition}
        assert read_numbers(node.bootstrap_servers, TOPIC, partition) == expected
