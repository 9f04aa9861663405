"""Planning and reading of what a fetch asks for, next to the handler's own tests."""

from __future__ import annotations

from typing import Any

from crabka.broker.fetch_client import FetchClient
from crabka.broker.fetch_reader import read_slices, read_targets, with_cold_bytes
from crabka.broker.fetch_sessions import SessionTarget
from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode, batch, cold_node


def target(index: int, **options: Any) -> SessionTarget:
    made = SessionTarget("t", ZERO_UUID, index)
    made.max_bytes = 1 << 20
    for name, value in options.items():
        setattr(made, name, value)
    return made


def fill(node: SimNode) -> int:
    node.create_topic("t", 3)
    for index in range(3):
        node.produce("t", batch(bytes(100)), partition=index)
    return len(batch(bytes(100)))


def test_later_partitions_get_what_is_left_of_the_limit(node: SimNode) -> None:
    size = fill(node)
    found = read_targets(node.context, [target(0), target(1), target(2)], FetchClient(), max_bytes=2 * size)
    assert [len(read.row.records) for read in found.reads] == [size, size, 0]
    assert found.planned_bytes == 2 * size
    assert not found.is_urgent


def test_a_fault_does_not_stop_the_others(node: SimNode) -> None:
    size = fill(node)
    targets = [target(0, fetch_offset=7), target(9), target(2)]
    found = read_targets(node.context, targets, FetchClient(), max_bytes=1 << 20)
    assert [read.row.error_code for read in found.reads] == [
        ErrorCode.offset_out_of_range,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
    ]
    assert found.is_urgent
    assert found.planned_bytes == size


def test_cold_bytes_are_counted_before_they_are_read() -> None:
    with cold_node() as node:
        size = fill(node)
        found = read_targets(node.context, [target(0), target(1)], FetchClient(), max_bytes=1 << 20)
        assert found.planned_bytes == 2 * size
        assert len(found.cold_slices) == 2
        filled = with_cold_bytes(node.context, found.reads, read_slices(found.cold_slices))
        assert [len(read.row.records) for read in filled] == [size, size]
        assert all(read.cold is None for read in filled)
