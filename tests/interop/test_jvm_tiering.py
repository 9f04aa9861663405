"""A tier that we wrote is read and continued by Apache Kafka, and one that it wrote by us, in turns."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from crabka.cli.main import execute
from tests.support.clients.foreign_transactions import READ_COMMITTED, READ_UNCOMMITTED, read_to_end
from tests.support.kafka.oracle import run_tool
from tests.support.tiers.turns import (
    FIRST_MS,
    PARTITIONS,
    PLACES,
    REMOTE_ONLY,
    TOPICS,
    CrabkaTurn,
    KafkaTurn,
    Written,
    create_topics,
    list_offsets,
    take_over,
    wait_tiered,
    write_turn,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]

TURNS: dict[str, list[type[KafkaTurn]]] = {
    "crabka-first": [CrabkaTurn, KafkaTurn, CrabkaTurn],
    "kafka-first": [KafkaTurn, CrabkaTurn, KafkaTurn],
}
TIMES = (-1, -2, -3, -4, -5, -6, FIRST_MS, FIRST_MS + 31, FIRST_MS + 77, 10 * FIRST_MS)
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FINISHED = "COPY_SEGMENT_FINISHED"
DUMPED_EVENT = re.compile(r"^\| offset: .* payload: \w+\{.* id=(\S{22})\}, .*state=(\w+)", re.MULTILINE)
# What a segment is; the rest of what is listed says when and by whom it was copied.
SEGMENT_FIELDS = ("id", "topic", "partition", "start", "end", "epochs", "state", "size_bytes", "txn_index_empty")

Segments = dict[str, dict[str, Any]]


@pytest.mark.parametrize("order", TURNS)
def test_each_reads_and_continues_the_tier_of_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str
) -> None:
    written = Written()
    first, *others = TURNS[order]
    node = first(tmp_path / "0")
    with node:
        create_topics(node.bootstrap_servers)
        segments, offsets = _take_turn(node, written, 0, capsys)
        assert node.stop() in {0, 143}  # A JVM reports the signal that ended it.
    for turn, kind in enumerate(others, start=1):
        _check_dump(node, segments)
        node = take_over(kind, node, tmp_path / str(turn))
        with node:
            wait_tiered(node)
            assert {time: list_offsets(node, time) for time in TIMES} == offsets
            _check_rows(node, written)
            former = segments
            assert _segments(node, capsys) == former
            segments, offsets = _take_turn(node, written, turn, capsys)
            assert former.items() <= segments.items()
            assert node.stop() in {0, 143}


def _take_turn(
    node: KafkaTurn, written: Written, turn: int, capsys: pytest.CaptureFixture[str]
) -> tuple[Segments, dict[int, Any]]:
    """Let a node write; return the segments in its tier and the offsets that it lists."""
    write_turn(node.bootstrap_servers, written, turn)
    wait_tiered(node)
    _check_rows(node, written)
    segments = _segments(node, capsys)
    copied = Counter((segment["topic"], segment["partition"]) for segment in segments.values())
    assert min(copied[place] for place in PLACES) > 5 * (turn + 1)
    assert {segment["state"] for segment in segments.values()} == {FINISHED}
    assert {segment["txn_index_empty"] for segment in segments.values()} == {True, False}
    assert all(offset > 0 for offset, _ in list_offsets(node, -4).values()), "nothing left the disk"
    return segments, {time: list_offsets(node, time) for time in TIMES}


def _check_rows(node: KafkaTurn, written: Written) -> None:
    for topic in TOPICS:
        for isolation, expected in ((READ_UNCOMMITTED, written.uncommitted), (READ_COMMITTED, written.committed)):
            found = read_to_end(node.bootstrap_servers, topic, PARTITIONS, isolation)
            wanted = [values for place, values in expected.items() if place.topic == topic]
            assert [len(values) for values in found] == [len(values) for values in wanted]
            assert found == wanted
    committed = written.committed[PLACES[0]]
    where = ["--bootstrap-server", node.bootstrap_servers, "--topic", REMOTE_ONLY, "--partition", "0"]
    how = ["--offset", "earliest", "--isolation-level", "read_committed", "--max-messages", str(len(committed))]
    assert run_tool(CONSUMER, *where, *how, "--timeout-ms", "30000").lines == [text.decode() for text in committed]


def _segments(node: KafkaTurn, capsys: pytest.CaptureFixture[str]) -> Segments:
    """The segments in the tier by id, once all of it was found in order."""
    where = ["--bootstrap", node.bootstrap_servers]
    tier = ["--tier", f"file://{node.tier}", "--grace", "0"]
    code, checked = _tier(capsys, "fsck", *where, *tier)
    assert (checked["faults"], code) == ([], 0)
    code, listed = _tier(capsys, "ls", *where)
    assert (len(listed), code) == (checked["segments"], 0)
    return {segment["id"]: {name: segment[name] for name in SEGMENT_FIELDS} for segment in listed}


def _tier(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = execute(["tier", *arguments, "--json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, json.loads(captured.out)


def _check_dump(node: KafkaTurn, segments: Segments) -> None:
    """Check that kafka-dump-log decodes the metadata topic of a stopped node to the segments that were listed."""
    logs = [path for path in node.data_dir.rglob("__remote_log_metadata-*/*.log") if path.stat().st_size]
    shown = run_tool(DUMP, "--remote-log-metadata-decoder", "--files", ",".join(map(str, logs))).stdout
    assert "isvalid: false" not in shown
    assert shown.count("\n| offset: ") == len(DUMPED_EVENT.findall(shown))
    last_states: dict[str, str] = dict(DUMPED_EVENT.findall(shown))
    assert {segment_id for segment_id, state in last_states.items() if state == FINISHED} == set(segments)
