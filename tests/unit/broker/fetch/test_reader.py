"""Planning and reading of what a fetch asks for, next to the handler's own tests."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.fetch.reader import read_slices, read_targets, with_cold_bytes
from crabka.broker.fetch.sessions import FetchClient, SessionTarget
from crabka.errors import CorruptDataError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode
from tests.support.faults.rotting import flip
from tests.support.nodes.sim_node import SimNode, batch, cold_node


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


def test_damage_that_a_read_meets_costs_neither_the_connection_nor_the_others(
    node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = fill(node)
    log = node.context.partitions.by_name("t", 1).log
    read = type(log).read

    def meet_damage(read_log: Any, *args: Any, **options: Any) -> Any:
        if read_log is log:
            raise CorruptDataError(log.path, "the file is damaged")
        return read(read_log, *args, **options)

    monkeypatch.setattr(type(log), "read", meet_damage)
    found = read_targets(node.context, [target(0), target(1), target(2)], FetchClient(), max_bytes=1 << 20)
    codes = [each.row.error_code for each in found.reads]
    assert codes == [ErrorCode.none, ErrorCode.kafka_storage_error, ErrorCode.none]
    assert found.planned_bytes == 2 * size


def test_cold_bytes_are_counted_before_they_are_read() -> None:
    with cold_node() as node:
        size = fill(node)
        found = read_targets(node.context, [target(0), target(1)], FetchClient(), max_bytes=1 << 20)
        assert found.planned_bytes == 2 * size
        assert len(found.cold_slices) == 2
        filled = with_cold_bytes(node.context, found.reads, read_slices(found.cold_slices))
        assert [len(read.row.records) for read in filled] == [size, size]
        assert all(read.cold is None for read in filled)


def codes(node: SimNode, *offsets: int) -> list[int]:
    targets = [target(0, fetch_offset=offset) for offset in offsets]
    found = [read_targets(node.context, [each], FetchClient(), max_bytes=1 << 20).reads[0] for each in targets]
    return [read.row.error_code for read in found]


def test_a_replica_that_is_alone_serves_all_but_what_is_damaged(
    node: SimNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.create_topic("t", 1)
    for _ in range(3):
        node.produce("t", batch(bytes(100)))
    log = node.context.partitions.by_name("t", 0).log
    size = len(batch(bytes(100)))
    # The length of the second batch, so that nothing after it is found without a check, and two bytes of its content,
    # which no checksum corrects.
    for position in (10, 80, 90):
        flip(node.memory, log.healing.segment_of(0).log_path, size + position)
    assert codes(node, 0, 2) == [ErrorCode.none, ErrorCode.kafka_storage_error]
    node.advance(5000)
    assert codes(node, 0, 1, 2) == [ErrorCode.none, ErrorCode.corrupt_message, ErrorCode.none]
    whole = read_targets(node.context, [target(0)], FetchClient(), max_bytes=1 << 20)
    assert len(whole.reads[0].row.records) == size, "a read ends before what is damaged"
    node.advance(60_000)
    errors = [record.getMessage() for record in caplog.records if "stay damaged" in record.getMessage()]
    assert len(errors) == 1
    assert "offsets 1 to 1" in errors[0]


def test_a_damaged_transaction_index_is_an_error_of_its_partition_until_it_is_rebuilt(node: SimNode) -> None:
    fill(node)
    log = node.context.partitions.by_name("t", 0).log
    segment = log.healing.segment_of(0)
    aborted = [AbortedTransaction(7, 0, 0, 1)]
    segment.aborts.hold(aborted)
    client = FetchClient(is_committed_only=True)
    found = read_targets(node.context, [target(0), target(1)], client, max_bytes=1 << 20)
    assert [read.row.error_code for read in found.reads] == [ErrorCode.kafka_storage_error, ErrorCode.none]
    node.advance(5000)
    found = read_targets(node.context, [target(0), target(1)], client, max_bytes=1 << 20)
    assert [read.row.error_code for read in found.reads] == [ErrorCode.none, ErrorCode.none]
    assert found.reads[0].row.aborted_transactions == []
