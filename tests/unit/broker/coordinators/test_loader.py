"""Loading a partition in small steps."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.coordinators import loader
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import BatchHeader
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.faults.rotting import flip
from tests.support.nodes.sim_node import SimNode


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


def test_what_only_the_leader_has_is_loaded_as_well(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    assert NodeMember(node).commit(offset=1) is ErrorCode.none
    log = node.context.groups.shard_of("g").partition.log
    for offset in range(2, 20):
        assert NodeMember(node).commit(offset=offset) is ErrorCode.none
    log.state.high_watermark = 1
    offsets: list[int] = []

    def replay(_batch: memoryview, header: BatchHeader) -> int:
        offsets.append(header.base_offset)
        return 1

    # Every read gets one batch.
    count = node.run(loader.replay_log(log, node.runtime.threads, replay, buffer_bytes=1))
    log.state.high_watermark = log.log_end_offset
    assert offsets == list(range(log.log_end_offset))
    assert count == len(offsets) == 19


@pytest.mark.parametrize("position", [10, 80])
def test_a_damaged_batch_is_waited_for_and_no_state_without_it_is_served(node: SimNode, position: int) -> None:
    node.create_topic("t")
    find_coordinator(node)
    for offset in range(5):
        assert NodeMember(node).commit(offset=offset) is ErrorCode.none
    log = node.context.groups.shard_of("g").partition.log
    headers = list(log.healing.segment_of(0).headers())
    # Three bytes, which no checksum corrects.
    places = [headers[2][0] + each for each in (position, position + 5, position + 9)]

    def damage_or_restore() -> None:
        for place in places:
            flip(node.memory, log.healing.segment_of(0).log_path, place)

    damage_or_restore()
    offsets: list[int] = []

    def replay(_batch: memoryview, header: BatchHeader) -> int:
        offsets.append(header.base_offset)
        return 1

    async def load() -> None:
        loading = asyncio.ensure_future(loader.replay_log(log, node.runtime.threads, replay, buffer_bytes=1 << 20))
        await asyncio.sleep(20)
        assert offsets == [header.base_offset for _, header in headers[:2]]
        assert log.healing.is_damaged, "it was reported"
        damage_or_restore()
        log.healing.report_damage_at(0, "a test says so")
        await asyncio.wait_for(loading, 60)

    node.run(load())
    assert offsets == [header.base_offset for _, header in headers]
