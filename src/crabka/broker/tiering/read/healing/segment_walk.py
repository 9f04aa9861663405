"""All batches of a remote segment with every check that bytes allow, past what is damaged, corrected where possible.

Reads the tier through its RemoteStorageManager in large pieces, in bounded memory. Everything here is for a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.read.healing.part_check import facts_of
from crabka.log.healing.batch_correction import RangeFacts, correct_range
from crabka.log.segment.batch_walk import NO_EPOCH, BatchWalk, Gap, OffsetRules, WholeBatch
from crabka.records.header import iter_headers
from crabka.remote.errors import RemoteBackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.ports import Buffer
    from crabka.records.correction import Change
    from crabka.records.header import BatchHeader
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

# As large as the chunks of other reads: a store works for each request as well as for each byte.
PIECE_BYTES: Final = 8 * 1024 * 1024
# A larger stretch without a whole batch is not looked at for a correction.
_MAX_STRETCH_BYTES: Final = 16 * 1024 * 1024


class DamagedStretch(NamedTuple):
    """Bytes [position, end) of a segment, offsets [offset, end_offset), in which no batch is whole."""

    position: int
    end: int
    offset: int
    end_offset: int
    reason: str
    # The batches as they were written, empty if that is not known.
    data: bytes = b""
    changes: tuple[Change, ...] = ()


class SegmentObject:
    """The log object of a segment, read like a file."""

    def __init__(self, storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> None:
        self._storage = storage
        self._segment = segment
        self._piece = memoryview(b"")
        self._start = 0

    def pread(self, length: int, position: int) -> Buffer:
        """Return bytes, fewer only at the end. Raises RemoteStorageError."""
        length = min(length, self._segment.segment_size_bytes - position)
        start = position - self._start
        if start < 0 or start + length > len(self._piece):
            end = min(position + max(length, PIECE_BYTES), self._segment.segment_size_bytes)
            data = self._storage.fetch_log_segment(self._segment, position, end - 1) if end > position else b""
            if len(data) != end - position:
                raise RemoteBackendError(f"{self._segment.segment_id}: {len(data)} bytes instead of {end - position}")
            self._piece, self._start, start = memoryview(data), position, 0
        return self._piece[start : start + length]


def walk_segment(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, max_decompressed_bytes: int
) -> Iterator[WholeBatch | DamagedStretch]:
    """Yield what a segment consists of, without holes. Raises RemoteStorageError."""
    content, facts = SegmentObject(storage, segment), facts_of(segment)
    rules = OffsetRules(facts.start_offset, facts.end_offset + 1, facts.leader_epochs[-1][0])
    for piece in BatchWalk(content, facts.size, rules).pieces():
        if isinstance(piece, WholeBatch):
            header = piece.header
            epoch = facts.epoch_of(header.base_offset)
            if epoch is None or header.partition_leader_epoch in (epoch, NO_EPOCH):
                yield piece
                continue
            reason = f"leader epoch {header.partition_leader_epoch}, and the metadata says {epoch}"
            gap = Gap(piece.position, piece.end, header.base_offset, header.next_offset, reason)
        else:
            gap = piece
        stretch = DamagedStretch(gap.position, gap.end, gap.offset, gap.end_offset, gap.reason)
        wanted = RangeFacts(gap.offset, gap.end_offset, facts.epoch_of, max_decompressed_bytes)
        yield _corrected(SegmentObject(storage, segment), stretch, wanted)


def _corrected(content: SegmentObject, stretch: DamagedStretch, wanted: RangeFacts) -> DamagedStretch:
    size = stretch.end - stretch.position
    if size > _MAX_STRETCH_BYTES:
        return stretch
    correction = correct_range(content.pread(size, stretch.position), wanted)
    if correction is None:
        return stretch
    changes = tuple(each._replace(position=each.position + stretch.position) for each in correction.changes)
    return stretch._replace(data=correction.data, changes=changes)


def batches_of(piece: WholeBatch | DamagedStretch) -> list[tuple[int, BatchHeader, memoryview]]:
    """Return the whole or corrected batches of a piece with their positions, none if it is damaged for good."""
    if isinstance(piece, WholeBatch):
        return [(piece.position, piece.header, piece.data)]
    view = memoryview(piece.data)
    return [
        (piece.position + position, header, view[position : position + header.size_in_bytes])
        for position, header in iter_headers(view)
    ]
