"""Whole nodes, started by the command line, on directories and tiers that Apache Kafka 4.3.0 left behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from crabka.cli.main import execute
from crabka.cli.session import with_admin
from crabka.clients.fetcher.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
)
from crabka.ids import TopicPartition
from crabka.security.acls import AclFilter
from tests.support.nodes.process import wait_until
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.node import GoldenProcess, OverlapProcess, read_rows

PARTITIONS = [
    (golden, topic, int(partition))
    for golden in ("single", "overlap")
    for topic, rows in json.loads((GOLDEN / golden / "expected.json").read_text())["read_uncommitted"].items()
    for partition in rows
]
SPECS = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "latest_read_committed": LATEST,
    "max_timestamp": MAX_TIMESTAMP,
    "earliest_local": EARLIEST_LOCAL,
    "latest_tiered": LATEST_TIERED,
    "earliest_pending_upload": EARLIEST_PENDING_UPLOAD,
    "timestamp_1700000050500": 1700000050500,
}
# Where Kafka ends a search by time at a segment that compaction left empty, and finds nothing.
NOT_FOUND_BY_KAFKA = {"compacted-after-0", "compacted-notombstones-0"}

Nodes = dict[str, GoldenProcess]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """The nodes on golden data, for all tests of this module."""
    with (
        GoldenProcess(tmp_path_factory.mktemp("golden")) as single,
        OverlapProcess(tmp_path_factory.mktemp("golden")) as overlap,
    ):
        yield {"single": single, "overlap": overlap}


@pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(("golden", "topic", "partition"), PARTITIONS)
def test_rows_are_what_kafka_answered(nodes: Nodes, golden: str, topic: str, partition: int, isolation: str) -> None:
    node = nodes[golden]
    expected = node.expected[isolation][topic][str(partition)]
    assert read_rows(node.bootstrap_servers, topic, partition, isolation) == expected


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("golden", ["single", "overlap"])
def test_offsets_are_what_kafka_listed(nodes: Nodes, golden: str, spec: str) -> None:
    node = nodes[golden]
    expected = {
        name: answer for name, answer in node.expected["list_offsets"][spec].items() if not name.startswith("__")
    }
    if spec.startswith("timestamp"):
        expected = {name: answer for name, answer in expected.items() if name not in NOT_FOUND_BY_KAFKA}
    _wait_for_tiering(node)
    ends = _list_offsets(node, expected, LATEST)
    found = _list_offsets(node, expected, SPECS[spec], read_committed=spec == "latest_read_committed")
    is_end = SPECS[spec] == LATEST
    assert found == {name: _as_of_now(answer, ends[name], is_end=is_end) for name, answer in expected.items()}


@pytest.mark.parametrize("golden", ["single", "overlap"])
def test_the_tier_of_kafka_has_no_fault(nodes: Nodes, golden: str, capsys: pytest.CaptureFixture[str]) -> None:
    node = nodes[golden]
    where = ["--bootstrap", node.bootstrap_servers, "--tier", f"file://{node.tier}", "--grace", "0"]
    code = execute(["tier", "fsck", *where, "--json"])
    result = json.loads(capsys.readouterr().out)
    segments = node.expected["remote_segments"]["segments"]
    assert (result["faults"], code) == ([], 0)
    assert result["segments"] == sum(segment["state"] == "COPY_SEGMENT_FINISHED" for segment in segments)


def test_acls_of_kafka_are_in_force(nodes: Nodes) -> None:
    node = nodes["single"]
    words = node.stderr_text()
    assert "authorizer.class.name" not in words
    assert "ACLs" not in words
    # The operator of this node is one of its super users.
    assert with_admin(node.bootstrap_servers, lambda admin: admin.acls.describe(AclFilter()))


def _wait_for_tiering(node: GoldenProcess) -> None:
    """Wait until the node has looked up how far the tier reaches: it serves clients before that, as Kafka does."""
    tiered = [name for name in node.expected["list_offsets"]["latest_tiered"] if name.startswith("tiered")]
    wait_until(
        lambda: all(answer.offset >= 0 for answer in _list_offsets(node, tiered, LATEST_TIERED).values()),
        "the ends of the tier are known",
    )


def _list_offsets(
    node: GoldenProcess, names: Iterable[str], timestamp: int, *, read_committed: bool = False
) -> dict[str, OffsetAndTimestamp]:
    partitions = {TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])): name for name in names}

    async def ask(admin: Any) -> Any:
        return await admin.list_offsets(dict.fromkeys(partitions, timestamp), read_committed=read_committed)

    found = with_admin(node.bootstrap_servers, ask)
    return {partitions[partition]: answer for partition, answer in found.items()}


def _as_of_now(answer: dict[str, Any], end: OffsetAndTimestamp, *, is_end: bool) -> OffsetAndTimestamp:
    """What Kafka answered, where ends have the epoch of our start in place of that of Kafka's last one."""
    epoch = -1 if answer["leader_epoch"] is None else answer["leader_epoch"]
    if is_end or answer["offset"] == end.offset:
        assert end.leader_epoch > epoch
        epoch = end.leader_epoch
    return OffsetAndTimestamp(answer["offset"], answer["timestamp"], epoch)
