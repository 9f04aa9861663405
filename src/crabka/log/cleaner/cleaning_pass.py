"""One pass over a log that is cleaned: load the newest offset of each key, then copy what is still needed.

Works on sealed segments, which do not change, in steps that yield how many bytes they took, so that the caller, who
runs them in threads, can slow them down. Follows Kafka's Cleaner record for record. It writes `.cleaned` files and
makes them durable; the log installs them (`LogCleaning`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.file_names import offset_name
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.cleaner.transactions import CleanedTransactions
from crabka.log.recovery.replay import end_marker
from crabka.log.recovery.segment_recovery import checked_batches_in
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.indexes import IndexBuilder
from crabka.log.segment.segment import Segment
from crabka.log.segment.swap import CleanedFiles
from crabka.records.filtering import RawRecord, emptied_batch, filtered_batch
from crabka.records.header import BatchHeader, parse_header

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.log.cleaner.memory import BatchMemory
    from crabka.log.cleaner.offset_map import OffsetMap
    from crabka.log.cleaner.plan import CleaningRange
    from crabka.ports import Buffer

STEP_BYTES: Final = 256 * 1024


class LastRecord(NamedTuple):
    """Where an active producer stands: its last data offset, None if its epoch has only a marker."""

    last_data_offset: int | None
    producer_epoch: int


class CleaningView(NamedTuple):
    """What a pass knows of its log, chosen at one moment on the loop."""

    context: SegmentContext
    directory: str
    config: TopicConfig
    # Sealed segments below the first uncleanable offset.
    segments: Sequence[Segment]
    part: CleaningRange
    last_records: Mapping[int, LastRecord]
    # Aborted transactions whose markers are after these segments.
    later_aborted: Sequence[AbortedTransaction]
    now_ms: int
    # Steps may hold `step_bytes` of it when they are run.
    memory: BatchMemory

    def aborted(self, start: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that reach beyond `start`. May wait for the disk."""
        own = [entry for segment in self.segments for entry in segment.aborted()]
        return [entry for entry in [*own, *self.later_aborted] if entry.last_offset >= start]


class CleanedSegment(NamedTuple):
    """A segment that waits under `.cleaned` names to replace others."""

    files: CleanedFiles
    size: int


def load_offsets(view: CleaningView, offsets: OffsetMap) -> Iterator[int]:
    """Fill the map from the dirty part, as far as it has room; yields the bytes read by each step.

    `latest_offset` of the map is then the end of what was loaded.
    """
    first_dirty = view.part.first_dirty
    dirty = [segment for index, segment in enumerate(view.segments) if _end(view, index) > first_dirty]
    offsets.latest_offset = first_dirty - 1
    transactions = CleanedTransactions(view.aborted(dirty[0].base_offset if dirty else first_dirty))
    read = 0
    for segment in dirty:
        for header, batch in _batches(view.context, segment):
            if view.memory.must_wait(batch, header):
                yield read
                read = 0
            if not _load_batch(view, offsets, transactions, header, batch):
                return
            read += header.size_in_bytes
            if read >= STEP_BYTES:
                yield read
                read = 0
    offsets.latest_offset = view.part.first_uncleanable - 1
    yield read


def _load_batch(
    view: CleaningView, offsets: OffsetMap, transactions: CleanedTransactions, header: BatchHeader, batch: memoryview
) -> bool:
    """Load one batch; return False if the map is full, and then none of the batch counts as loaded."""
    first_dirty = view.part.first_dirty
    if header.is_control:
        transactions.is_marker_unneeded(header, end_marker(batch, header))
    elif not transactions.is_aborted(header) and header.last_offset >= first_dirty:
        for record in view.memory.records(batch, header):
            if record.key is not None and record.offset >= first_dirty and not offsets.put(record.key, record.offset):
                return False
    offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
    return True


def _end(view: CleaningView, index: int) -> int:
    following = index + 1
    return view.segments[following].base_offset if following < len(view.segments) else view.part.first_uncleanable


def _batches(context: SegmentContext, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield all batches of a segment. Raises CorruptDataError: what cannot be read must not be dropped."""
    if not segment.size:
        return
    file = context.fs.open(segment.log_path, read_only=True)
    try:
        end = 0
        for position, header, batch in checked_batches_in(file, segment.size):
            end = position + header.size_in_bytes
            yield header, batch
        if end != segment.size:
            raise CorruptDataError(segment.log_path, f"no whole batch at position {end}")
    finally:
        file.close()


class RecordFilter:
    """Decides batch by batch what stays. Sees all batches of the log, in order."""

    def __init__(self, view: CleaningView, offsets: OffsetMap) -> None:
        self._offsets = offsets
        self._last_records = view.last_records
        self._memory = view.memory
        self._now_ms = view.now_ms
        self._new_horizon_ms = view.now_ms + view.config.delete_retention_ms
        self._round_end = view.part.first_uncleanable
        start = view.segments[0].base_offset if view.segments else 0
        self.transactions = CleanedTransactions(view.aborted(start))

    def apply(self, batch: memoryview, header: BatchHeader) -> Buffer | None:
        """Return what is written for a batch: itself, a part of it, its empty form, or nothing (None)."""
        ends_data = False
        if header.is_control:
            marker = end_marker(batch, header)
            if marker is None and header.records_count:
                return batch
            ends_data = not self.transactions.is_marker_unneeded(header, marker)
            discard = not ends_data and self._is_behind_horizon(header)
        else:
            discard = self.transactions.is_aborted(header)
        records = [] if discard else self._memory.records(batch, header)
        kept = records if header.is_control else [record for record in records if self._is_kept(record, header)]
        if not kept:
            return emptied_batch(header) if self._stays_empty(header) else None
        expires = not ends_data if header.is_control else not all(record.has_value for record in kept)
        sets_horizon = expires and not header.has_delete_horizon
        if len(kept) == len(records) and not sets_horizon:
            return batch
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        return filtered_batch(header, kept, self._new_horizon_ms if sets_horizon else horizon_ms)

    def _is_kept(self, record: RawRecord, header: BatchHeader) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None or record.offset < self._offsets.get(record.key):
            return False
        return record.has_value or not self._is_behind_horizon(header)

    def _is_behind_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _stays_empty(self, header: BatchHeader) -> bool:
        """Return whether a batch without records must stay for its header.

        The last batch of a producer has its sequence and epoch; the last of the round shows where the log ended.
        """
        if header.next_offset == self._round_end:
            return True
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_data_offset is None:
            return header.is_control and header.producer_epoch == last.producer_epoch
        return header.last_offset == last.last_data_offset


class GroupCopier:
    """Copies a run of segments into one `.cleaned` segment. `cleaned` is there when all steps are done."""

    def __init__(self, view: CleaningView, group: Sequence[Segment], keep: RecordFilter) -> None:
        self._view = view
        self.group = group
        self._filter = keep
        self._files = CleanedFiles(view.context.fs, f"{view.directory}/{offset_name(group[0].base_offset)}")
        self._builder = IndexBuilder(group[0].base_offset, view.config.index_interval_bytes)
        self._size = 0
        self._held: list[Buffer] = []
        self._held_bytes = 0
        self.cleaned: CleanedSegment | None = None

    def steps(self) -> Iterator[int]:
        """Copy, and make the result durable; yields the bytes read and written by each step."""
        self._files.create()
        try:
            done = 0
            for segment in self.group:
                for header, batch in _batches(self._view.context, segment):
                    if self._view.memory.must_wait(batch, header):
                        yield done
                        done = 0
                    done += header.size_in_bytes + self._copy(batch, header)
                    if done >= STEP_BYTES:
                        yield done
                        done = 0
            self._write_held()
            self._files.finish(self._builder.finish(), self._filter.transactions.take_kept())
        finally:
            self._files.close()
        self.cleaned = CleanedSegment(self._files, self._size)
        yield done

    def discard(self) -> None:
        """Remove what was written."""
        self._files.discard()

    def _copy(self, batch: memoryview, header: BatchHeader) -> int:
        kept = self._filter.apply(batch, header)
        if kept is None:
            return 0
        size = len(kept)
        self._builder.add(self._size + self._held_bytes, parse_header(kept))
        self._held.append(kept)
        self._held_bytes += size
        if self._held_bytes >= STEP_BYTES:
            self._write_held()
        return size

    def _write_held(self) -> None:
        if self._held:
            self._files.append(self._held, self._size)
            self._size += self._held_bytes
            self._held, self._held_bytes = [], 0
