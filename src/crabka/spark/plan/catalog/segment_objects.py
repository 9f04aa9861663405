"""The objects of segments, fetched for planning, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.leader_epochs import Epochs
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.producer_snapshot import decode_producers, open_transactions
from crabka.formats.time_index import TimeIndex
from crabka.formats.transaction_index import AbortedTransaction, decode_aborted
from crabka.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.spark.access.tier_store import ObjectMissingError, TierStore
from crabka.spark.errors import SegmentVanishedError, TierReadError

T = TypeVar("T")
R = TypeVar("R")

_THREADS: Final = 32
# Enough for the header of a batch and often for those of its neighbours.
_HEADER_PIECE_BYTES: Final = 16 << 10


def in_parallel(items: Iterable[T], ask: Callable[[T], R]) -> list[R]:
    """Call a function for many items in threads, and return the results in order. Raises the first error."""
    wanted = list(items)
    if len(wanted) <= 1:
        return [ask(each) for each in wanted]
    answers: dict[int, R] = {}
    errors: dict[int, Exception] = {}
    places = iter(range(len(wanted)))

    def work() -> None:
        # Threads take the next place themselves: a future for each of many thousand costs more than a small read.
        # Places are given out in order, so none before one that failed is left out.
        for place in places:
            if errors:
                return
            try:
                answers[place] = ask(wanted[place])
            except Exception as error:  # noqa: BLE001 - raised by the caller
                errors[place] = error

    threads = min(_THREADS, len(wanted))
    with ThreadPoolExecutor(threads, thread_name_prefix="tier-plan") as pool:
        for worker in [pool.submit(work) for _ in range(threads)]:
            worker.result()
    if errors:
        raise errors[min(errors)]
    return [answers[place] for place in range(len(wanted))]


class SegmentObjects:
    """Reads objects of segments. Methods raise TierReadError, CorruptDataError, RemoteBackendError."""

    def __init__(self, store: TierStore) -> None:
        self.store = store

    def for_all(self, items: Iterable[T], ask: Callable[[T], R]) -> list[R]:
        """Call a function for many items in threads, and return the results in order."""
        return in_parallel(items, ask)

    def offset_index(self, segment: RemoteLogSegmentMetadata) -> OffsetIndex:
        """Return the offset index."""
        path = object_path(segment, IndexType.OFFSET)
        index = OffsetIndex.decode(segment.start_offset, self._get(path), path)
        if len(index) and (index.last_offset > segment.end_offset or index.last_position >= segment.segment_size_bytes):
            raise CorruptDataError(path, "its last entry lies after the end of the segment")
        return index

    def offset_after(self, segment: RemoteLogSegmentMetadata, min_timestamp_us: int) -> int:
        """Return the first offset that can be of a time or later, by the time index."""
        path = object_path(segment, IndexType.TIMESTAMP)
        times = TimeIndex.decode(segment.start_offset, self._get(path), path)
        found = times.first_offset_since(-(-min_timestamp_us // 1000))
        if found > segment.end_offset + 1:
            raise CorruptDataError(path, "it has an offset after the end of the segment")
        return found

    def aborted(self, segment: RemoteLogSegmentMetadata) -> list[AbortedTransaction]:
        """Return the transactions whose abort markers a segment has."""
        if segment.txn_index_empty:
            return []
        path = object_path(segment, IndexType.TRANSACTION)
        try:
            return decode_aborted(self.store.get(path), path)
        except ObjectMissingError:
            # Stores leave out an empty index, and older metadata does not say that it is.
            return []

    def epochs(self, segment: RemoteLogSegmentMetadata) -> Epochs:
        """Return the leader epochs up to the end of a segment, from the first one on."""
        path = object_path(segment, IndexType.LEADER_EPOCH)
        try:
            return tuple(decode_epochs(self._get(path)))
        except CorruptDataError as error:
            raise TierReadError(f"{path} in {self.store.location} is damaged: {error.message}") from None

    def first_open_transaction(self, segment: RemoteLogSegmentMetadata) -> int | None:
        """Return the first offset of the oldest transaction that is open at the end of a segment."""
        path = object_path(segment, IndexType.PRODUCER_SNAPSHOT)
        return min(open_transactions(decode_producers(self._get(path), path)).values(), default=None)

    def base_offset_at(self, segment: RemoteLogSegmentMetadata, position: int) -> int:
        """Return the base offset of the batch that begins at a position."""
        return int.from_bytes(self.batch_bytes(segment, range(position, position + 8)))

    def batch_bytes(self, segment: RemoteLogSegmentMetadata, span: range) -> memoryview:
        """Return a part of the batches."""
        return self._get_range(object_path(segment), span)

    def first_batch(self, segment: RemoteLogSegmentMetadata) -> BatchHeader:
        """Return the header of the first batch."""
        path = object_path(segment)
        data = self._get_range(path, range(HEADER_SIZE))
        if len(data) < HEADER_SIZE:
            raise TierReadError(f"{path} in {self.store.location} has {len(data)} bytes, which is no batch")
        return parse_header(data)

    def batch_at(self, segment: RemoteLogSegmentMetadata, offset: int) -> BatchHeader | None:
        """Return the header of the first batch that reaches an offset, None if the segment has none."""
        position = self.offset_index(segment).floor_position(offset)
        piece, start = memoryview(b""), position
        while position + HEADER_SIZE <= segment.segment_size_bytes:
            if position + HEADER_SIZE > start + len(piece):
                start = position
                end = min(start + _HEADER_PIECE_BYTES, segment.segment_size_bytes)
                piece = self.batch_bytes(segment, range(start, end))
            header = parse_header(piece[position - start : position - start + HEADER_SIZE])
            if header.magic != MAGIC_V2 or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
                raise CorruptDataError(object_path(segment), f"there is no batch at position {position}")
            if header.last_offset >= offset:
                return header
            position += header.size_in_bytes
        return None

    def _get_range(self, path: str, span: range) -> memoryview:
        try:
            return self.store.get_range(path, span)
        except ObjectMissingError:
            raise self._gone(path) from None

    def _get(self, path: str) -> bytes:
        try:
            return self.store.get(path)
        except ObjectMissingError:
            raise self._gone(path) from None

    def _gone(self, path: str) -> SegmentVanishedError:
        return SegmentVanishedError(f"{path} is not in {self.store.location}, though the metadata of the tier names it")
