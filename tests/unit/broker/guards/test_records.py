"""Permissions of Produce and Fetch."""

from __future__ import annotations

from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import batch, fetch_body, produce_body
from tests.support.security.guarded_node import GuardedNode

NONE, DENIED = ErrorCode.none, ErrorCode.topic_authorization_failed


def produced(guarded: GuardedNode, user: str, topic: str, records: bytes, **options: Any) -> ErrorCode:
    answer = guarded.ask(user, ApiKey.PRODUCE, 9, produce_body(topic, records, **options))
    code: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return code


def test_writing_needs_write_on_the_topic(guarded: GuardedNode) -> None:
    assert produced(guarded, "alice", "open", batch(b"v")) is NONE
    assert produced(guarded, "alice", "closed", batch(b"v")) is DENIED
    # Whether the topic exists is not said.
    assert produced(guarded, "alice", "missing", batch(b"v")) is DENIED
    assert produced(guarded, "carol", "open", batch(b"v")) is DENIED


def test_nothing_of_a_refused_row_is_written(guarded: GuardedNode) -> None:
    before = guarded.sim.values("closed")
    guarded.call("alice", "produce", ApiKey.PRODUCE, 9)
    assert guarded.sim.values("closed") == before


def test_transactional_records_need_write_on_the_transactional_id(guarded: GuardedNode) -> None:
    records = batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    refused = ErrorCode.transactional_id_authorization_failed
    assert produced(guarded, "alice", "open", records, transactional_id="closed") is refused
    assert produced(guarded, "alice", "open", records, transactional_id=None) is refused
    # The coordinator does not know it, but the client may ask.
    assert produced(guarded, "alice", "open", records, transactional_id="open") is not refused


def test_an_incremental_fetch_is_checked_though_it_names_no_topic(guarded: GuardedNode) -> None:
    first = fetch_body([("open", 0, 0), ("closed", 0, 0)], session_epoch=0)
    answer = guarded.ask("alice", ApiKey.FETCH, 12, first)
    assert [row.partitions[0].error_code for row in answer.responses] == [NONE, DENIED]
    assert not answer.responses[1].partitions[0].records
    guarded.ask("root", ApiKey.PRODUCE, 9, produce_body("closed", batch(b"secret")))
    again = fetch_body([], session_id=answer.session_id, session_epoch=1)
    later = guarded.ask("alice", ApiKey.FETCH, 12, again)
    rows = {row.topic: row.partitions[0] for row in later.responses}
    assert rows["closed"].error_code is DENIED
    assert not rows["closed"].records
    # A replica's fetch needs more than to read.
    assert (
        guarded.ask("alice", ApiKey.FETCH, 12, fetch_body([("open", 0, 0)], replica_id=7))
        .responses[0]
        .partitions[0]
        .error_code
        is DENIED
    )
