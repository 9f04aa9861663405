"""Batches of `__consumer_offsets` that are loaded."""

from __future__ import annotations

import pytest

from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.nodes.sim_node import SimNode, batch


@pytest.mark.parametrize("key", [b"\x7f\0unknown", b"\0\1broken"])
def test_a_record_that_cannot_be_read_costs_nothing_else(
    node: SimNode, caplog: pytest.LogCaptureFixture, key: bytes
) -> None:
    node.create_topic("t")
    find_coordinator(node)
    partition = node.context.groups.shard_of("g").partition

    async def append() -> None:
        data = batch(b"x", key=key)
        partition.append(data, parse_header(data), node.clock.now_ms())

    node.run(append())
    NodeMember(node).commit()
    node.restart()
    node.advance(10)
    assert fetch_offset(node) == 5
    assert "__consumer_offsets" in caplog.text


def test_a_group_that_is_loaded_expires_like_any_other(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.stable()
    node.restart()
    member.client = node.connect()
    assert member.heartbeat() is ErrorCode.none
    node.advance(10_100)
    assert group_states(node) == {"g": ("Empty", "classic")}
