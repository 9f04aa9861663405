"""What a segment holds, read from its objects: last offset, largest timestamp, leader epochs.

The end is found from the last entry of the offset index on, so that little of a large segment is read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.leader_epochs import EpochLineage
from crabka.formats.offset_index import ENTRY_SIZE as OFFSET_ENTRY_BYTES
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import ENTRY_SIZE as TIME_ENTRY_BYTES
from crabka.formats.time_index import TimeIndex
from crabka.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, parse_header
from crabka.remote.errors import RemoteBackendError
from crabka.remote.scrub.faults import TierFaultKind
from crabka.remote.segments import (
    IndexType,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    SegmentDraft,
    TopicIdPartition,
)
from crabka.spark.access.tier_store import ListedObject, ObjectMissingError, TierStore, present

_PIECE_BYTES: Final = 64 << 10
_OFFSETS: Final = IndexType.OFFSET.value
_TIMES: Final = IndexType.TIMESTAMP.value
_EPOCHS: Final = IndexType.LEADER_EPOCH.value
_ABORTS: Final = IndexType.TRANSACTION.value


class UnusableSegmentError(ValueError):
    """A segment that does not count, why, and the object that is to blame; None is the batches."""

    def __init__(self, reason: str, kind: TierFaultKind, part: IndexType | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.part = part


@lru_cache(1024)
def _lineage_of(data: bytes) -> EpochLineage:
    """Return the epochs of a checkpoint; those of neighbouring segments are mostly the same."""
    return EpochLineage(decode_epochs(data))


class ListedSegment(NamedTuple):
    """What a listing shows of a segment."""

    partition: TopicIdPartition
    base_offset: int
    segment_id: uuid.UUID
    # Where its objects lie, without their suffixes.
    path: str
    # Its objects by their suffixes.
    parts: Mapping[str, ListedObject]


class SegmentProbe:
    """Reads objects of segments in a store."""

    def __init__(self, store: TierStore) -> None:
        self._store = store

    def read(self, listed: ListedSegment) -> RemoteLogSegmentMetadata:
        """Return what metadata would say of a segment that has all of its objects.

        Raises UnusableSegmentError, RemoteBackendError.
        """
        path, base_offset, parts = listed.path, listed.base_offset, listed.parts
        try:
            size_bytes = parts[LOG_SUFFIX].size_bytes
            start = self._last_position(parts[_OFFSETS])
            end_offset = self._last_offset(path + LOG_SUFFIX, start, size_bytes)
            time_index = self._tail(parts[_TIMES], TIME_ENTRY_BYTES)
            lineage = _lineage_of(self._store.get(path + _EPOCHS))
            has_aborts = _ABORTS in parts and parts[_ABORTS].size_bytes > 0
        except ObjectMissingError:
            raise UnusableSegmentError("it is being deleted", TierFaultKind.MISSING_OBJECT) from None
        except UnusableSegmentError:
            raise
        except RemoteBackendError:
            now = present(self._store.list(path.rpartition("/")[0]))
            if present(parts.values()).items() <= now.items():
                raise
            reason = "its objects changed while they were looked at"
            raise UnusableSegmentError(reason, TierFaultKind.WRONG_SIZE) from None
        except CorruptDataError as error:
            raise UnusableSegmentError(error.message, TierFaultKind.BAD_INDEX, IndexType.LEADER_EPOCH) from None
        if end_offset < base_offset or not (cut := lineage.between(base_offset, end_offset)):
            reason = "its name, its batches and its leader epochs contradict each other"
            raise UnusableSegmentError(reason, TierFaultKind.EPOCHS_IN_SEGMENT, IndexType.LEADER_EPOCH)
        segment = SegmentDraft()
        segment.segment_id = RemoteLogSegmentId(listed.partition, listed.segment_id)
        segment.start_offset = base_offset
        segment.end_offset = end_offset
        segment.max_timestamp_ms = TimeIndex.decode(0, time_index).last.timestamp
        segment.broker_id = -1
        segment.event_timestamp_ms = -1
        segment.segment_size_bytes = size_bytes
        segment.leader_epochs = cut
        segment.state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        segment.custom_metadata = None
        segment.txn_index_empty = not has_aborts
        return segment.done()

    def _last_position(self, index: ListedObject) -> int:
        """Return where the batch of the last index entry begins, 0 for an index without entries."""
        return OffsetIndex.decode(0, self._tail(index, OFFSET_ENTRY_BYTES)).last_position

    def _tail(self, listed: ListedObject, count: int) -> bytes:
        size_bytes = listed.size_bytes
        if size_bytes < count:
            return b""
        return bytes(self._store.get_range(listed.key, range(size_bytes - count, size_bytes)))

    def _last_offset(self, key: str, position: int, size_bytes: int) -> int:
        """Walk over the batches from a position on. Raises UnusableSegmentError unless the last one is whole."""
        if position + HEADER_SIZE > size_bytes:
            raise UnusableSegmentError("it has no whole batch after its last index entry", TierFaultKind.WRONG_SIZE)
        last_offset = -1
        piece, start = b"", 0
        while position < size_bytes:
            if position + HEADER_SIZE > size_bytes:
                raise UnusableSegmentError("it does not end with a whole batch", TierFaultKind.WRONG_SIZE)
            if position + HEADER_SIZE > start + len(piece):
                start = position
                piece = bytes(self._store.get_range(key, range(start, min(start + _PIECE_BYTES, size_bytes))))
            header = parse_header(piece[position - start : position - start + HEADER_SIZE])
            if header.magic != MAGIC_V2 or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
                reason = f"there is no batch at position {position}"
                if last_offset < 0 and position > 0:
                    raise UnusableSegmentError(reason, TierFaultKind.BAD_INDEX, IndexType.OFFSET)
                raise UnusableSegmentError(reason, TierFaultKind.CORRUPT_BATCH)
            position += LOG_OVERHEAD + header.batch_length
            last_offset = header.last_offset
        if position != size_bytes:
            raise UnusableSegmentError("it does not end with a whole batch", TierFaultKind.WRONG_SIZE)
        return last_offset
