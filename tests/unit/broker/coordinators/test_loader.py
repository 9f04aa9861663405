"""Loading a partition in small steps."""

from __future__ import annotations

import pytest

from crabka.broker.coordinators import loader
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.sim_node import SimNode


def test_many_groups_are_loaded_turn_by_turn(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "RECORDS_PER_TURN", 3)
    node.create_topic("t")
    find_coordinator(node)
    for number in range(40):
        assert NodeMember(node, f"g{number}").commit(offset=number) is ErrorCode.none
    node.restart({"offsets.load.buffer.size": "200"})
    node.advance(10)
    assert len(group_states(node)) == 40
    assert fetch_offset(node, group_id="g17") == 17
