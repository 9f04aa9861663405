"""From fetched bytes to the records of a consumer: no control records, no records of aborted transactions.

Pure. A partition's answer lists the aborted transactions that begin before its end (KIP-98); a transaction's records
are hidden from its first offset up to its abort marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crabka.records.control import ControlRecordType, control_record_type
from crabka.records.errors import CorruptBatchError
from crabka.records.header import BatchHeader, crc_valid, iter_headers
from crabka.records.record import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, decode_records


class AbortedSpan(NamedTuple):
    """An aborted transaction of a producer, by its first offset in the partition."""

    producer_id: int
    first_offset: int


class VisibleBatch(NamedTuple):
    """The visible records of one batch, none for a hidden one, and the next offset to read."""

    records: list[Record]
    leader_epoch: int
    next_offset: int


class AbortedFilter:
    """Iterates over batches in offset order and finds those of aborted transactions."""

    def __init__(self, aborted: Iterable[AbortedSpan]) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborting: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether the batch is hidden; control batches always are."""
        while self._upcoming and self._upcoming[-1].first_offset <= header.last_offset:
            self._aborting.add(self._upcoming.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._aborting and _is_abort_marker(header, batch):
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def visible_batches(
    data: bytes,
    start_offset: int,
    aborted: Iterable[AbortedSpan] | None,
    *,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[VisibleBatch]:
    """Yield the visible batches of fetched bytes from `start_offset` on; `aborted` None reads uncommitted records too.

    An incomplete batch at the end is skipped, as brokers may cut it. Raises CorruptBatchError.
    """
    view = memoryview(data)
    aborted_filter = AbortedFilter(aborted or ())
    for position, header in iter_headers(view):
        batch = view[position : position + header.size_in_bytes]
        if not crc_valid(batch, 0, header):
            raise CorruptBatchError(f"the batch at offset {header.base_offset} does not match its checksum")
        records: list[Record] = []
        if not aborted_filter.hides(header, batch):
            decoded = decode_records(batch, header, max_decompressed_bytes)
            records = [record for record in decoded if record.offset >= start_offset]
        yield VisibleBatch(records, header.partition_leader_epoch, header.next_offset)


def _is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    records = decode_records(batch, header)
    return bool(records) and control_record_type(records[0]) is ControlRecordType.ABORT
