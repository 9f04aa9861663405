"""The journal of requests."""

from __future__ import annotations

import pytest

from crabka.embedded.edge.edge import Edge
from crabka.embedded.edge.journal import Journal, JournalEntry
from crabka.protocol.apis import ApiKey
from crabka.protocol.headers import RequestHeader
from tests.support.nodes.sim_node import SimNode, batch

FRAME = memoryview(b"x" * 100)


def record(journal: Journal, api: ApiKey = ApiKey.PRODUCE, client_id: str = "c", size: int = 100) -> JournalEntry:
    header = RequestHeader(api, 0, 1, client_id, 0)
    return journal.record(header, memoryview(bytes(size)), now_ms=0, node_id=1, peer="h:1")


def test_requests_have_fields_time_and_errors(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    node.produce("missing", batch(b"a"))
    good, bad = edge.requests("Produce")
    assert (good.api, good.version, good.client_id, good.node_id) == ("Produce", 9, "sim", 1)
    assert good.time.year == 2026
    assert good.fields["topic_data"][0]["name"] == "t"
    assert (good.errors, bad.errors) == ((), ("UNKNOWN_TOPIC_OR_PARTITION",))
    assert str(bad) == "Produce v9 of sim to node 1: UNKNOWN_TOPIC_OR_PARTITION"
    assert [each.api for each in edge.requests()] == ["CreateTopics", "Produce", "Produce"]


def test_an_answer_that_comes_later_is_noted(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    fetched = node.fetch("t", max_wait=100)
    assert not fetched.records
    [entry] = edge.requests("Fetch")
    assert entry.is_answered
    assert entry.errors == ()


def test_the_journal_is_bounded_by_count_and_by_bytes() -> None:
    journal = Journal(max_entries=3, max_bytes=250)
    for name in "abcd":
        record(journal, client_id=name)
    assert [each.client_id for each in journal.requests()] == ["c", "d"]
    journal = Journal(max_entries=3)
    for name in "abcd":
        record(journal, client_id=name)
    assert [each.client_id for each in journal.requests()] == ["b", "c", "d"]


def test_a_forgotten_request_counts_no_more_when_it_is_answered() -> None:
    journal = Journal(max_entries=1, max_bytes=150)
    old = record(journal, client_id="old")
    record(journal, client_id="new")
    journal.note_answer(old, (b"\0\0\0\4\0\0\0\1" + bytes(200),))
    assert [each.client_id for each in journal.requests()] == ["new"]


def test_a_huge_request_is_listed_without_fields() -> None:
    entry = record(Journal(), size=2 << 20)
    with pytest.raises(LookupError, match="keeps no request over"):
        _ = entry.fields
    assert entry.kept_bytes == 0


def test_requests_are_filtered_and_forgotten() -> None:
    journal = Journal()
    record(journal, ApiKey.PRODUCE, "a")
    record(journal, ApiKey.FETCH, "b")
    assert [each.api for each in journal.requests("fetch")] == ["Fetch"]
    assert [each.api for each in journal.requests(client_id="a")] == ["Produce"]
    with pytest.raises(ValueError, match="no API"):
        journal.requests("Fetchh")
    journal.clear()
    assert journal.requests() == []


def test_equal_lines_in_a_row_are_folded() -> None:
    journal = Journal()
    for _ in range(3):
        record(journal, ApiKey.FETCH)
    record(journal)
    assert journal.lines() == [
        "00:00:00.000 Fetch v0 of c to node 1: no answer (x3)",
        "00:00:00.000 Produce v0 of c to node 1: no answer",
    ]
    assert len(journal.lines(last=1)) == 1


def test_the_beat_of_a_waiting_consumer_does_not_hide_the_rest() -> None:
    journal = Journal()
    record(journal)
    for _ in range(100):
        record(journal, ApiKey.FETCH)
        record(journal, ApiKey.HEARTBEAT)
    record(journal, ApiKey.HEARTBEAT)
    failed = record(journal, ApiKey.HEARTBEAT)
    failed.fault = "REBALANCE_IN_PROGRESS"
    assert [line.partition(" ")[2] for line in journal.lines()] == [
        "Produce v0 of c to node 1: no answer",
        "Fetch v0 of c to node 1: no answer (x100)",
        "Heartbeat v0 of c to node 1: no answer (x101)",
        "Heartbeat v0 of c to node 1: no answer [fault: REBALANCE_IN_PROGRESS]",
    ]


def test_requests_without_a_journal_are_not_silently_empty() -> None:
    with pytest.raises(RuntimeError, match="journal=True"):
        Edge().requests()
