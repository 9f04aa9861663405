"""Which fetched records a consumer sees."""

from __future__ import annotations

import base64
import json

import pytest

from crabka.clients.fetcher.isolation import AbortedFilter, AbortedSpan, visible_batches
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch, parse_control_record
from crabka.records.errors import CorruptBatchError
from crabka.records.header import parse_header
from crabka.records.record import Record, decode_records
from tests.support.recorded.batches import golden_batches
from tests.support.recorded.files import GOLDEN


def data(base_offset: int, count: int, producer_id: int = -1) -> bytes:
    records = [Record(base_offset + index, 0, None, b"v") for index in range(count)]
    return build_batch(
        records, base_offset=base_offset, producer_id=producer_id, producer_epoch=0, transactional=producer_id >= 0
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return build_end_transaction_batch(
        EndTransactionMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


def seen(log: bytes, start: int, aborted: list[AbortedSpan] | None) -> list[int]:
    return [record.offset for batch in visible_batches(log, start, aborted) for record in batch.records]


LOG = (
    data(0, 2, producer_id=1)
    + data(2, 1)
    + data(3, 1, producer_id=2)
    + marker(4, 1, committed=False)
    + data(5, 1, producer_id=1)
    + marker(6, 2, committed=True)
    + marker(7, 1, committed=True)
)
ABORTED = [AbortedSpan(1, 0)]


def test_aborted_records_are_hidden_and_later_ones_of_the_producer_are_not() -> None:
    assert seen(LOG, 0, ABORTED) == [2, 3, 5]


def test_read_uncommitted_sees_everything_but_markers() -> None:
    assert seen(LOG, 0, None) == [0, 1, 2, 3, 5]


def test_records_before_the_start_are_left_out() -> None:
    assert seen(LOG, 1, None) == [1, 2, 3, 5]


def test_reading_goes_on_behind_hidden_batches() -> None:
    assert [batch.next_offset for batch in visible_batches(LOG, 0, ABORTED)] == [2, 3, 4, 5, 6, 7, 8]


def test_incomplete_batch_at_the_end_is_left_out() -> None:
    assert seen(LOG[:-1], 0, None) == [0, 1, 2, 3, 5]
    assert seen(data(0, 2) + data(2, 2)[:-1], 0, None) == [0, 1]


def test_wrong_checksum_is_reported() -> None:
    broken = bytearray(data(0, 2))
    broken[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        seen(bytes(broken), 0, None)


def test_marker_of_another_producer_ends_nothing() -> None:
    aborted_filter = AbortedFilter(ABORTED)
    other = marker(0, 9, committed=False)
    assert aborted_filter.hides(parse_header(other), memoryview(other))
    mine = data(1, 1, producer_id=1)
    assert aborted_filter.hides(parse_header(mine), memoryview(mine))


@pytest.mark.parametrize("directory", ["txn-0", "txn-1", "compacted-txn-0"])
def test_golden_transactions_are_read_as_librdkafka_reads_them(directory: str) -> None:
    topic, _, partition = directory.rpartition("-")
    expected = json.loads((GOLDEN / "single" / "expected.json").read_text())["read_committed"][topic][partition]
    batches = list(golden_batches(directory))
    stable = expected[-1][0] + 1
    rows = [
        [record.offset, None if record.value is None else base64.b64encode(record.value).decode()]
        for batch in visible_batches(b"".join(batches), 0, aborted_transactions(batches))
        for record in batch.records
        if record.offset < stable
    ]
    assert rows == [[row[0], row[3]] for row in expected]


def aborted_transactions(batches: list[bytes]) -> list[AbortedSpan]:
    """Return what a broker would list, found by walking the log."""
    first_offsets: dict[int, int] = {}
    aborted = []
    for batch in batches:
        header = parse_header(batch)
        if header.is_control:
            end = parse_control_record(decode_records(batch)[0])
            first_offset = first_offsets.pop(header.producer_id, None)
            if isinstance(end, EndTransactionMarker) and not end.committed and first_offset is not None:
                aborted.append(AbortedSpan(header.producer_id, first_offset))
        elif header.is_transactional:
            first_offsets.setdefault(header.producer_id, header.base_offset)
    return aborted
