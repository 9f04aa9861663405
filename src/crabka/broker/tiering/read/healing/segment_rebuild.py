"""What lies beside the log object of a remote segment, built from the batches when an object is damaged.

Indexes need the segment alone. Aborted transactions and producers also need the state at its begin: the producer
snapshot of the segment before it, or nothing at the very begin of a log. Everything here is for a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.tiering.read.healing.segment_survey import INDEX_INTERVAL_BYTES
from crabka.broker.tiering.read.healing.segment_walk import batches_of, walk_segment
from crabka.errors import CorruptDataError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.partition.decompression import MAX_DECOMPRESSED_BYTES
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import decode_snapshot, encode_snapshot
from crabka.log.recovery.replay import replay_batch
from crabka.log.segment.indexes import IndexBuilder
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.log.producers.producer_state import ProducerEntry
    from crabka.log.segment.indexes import SegmentIndexes
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager


class SegmentHistory(NamedTuple):
    """What the batches of a segment do to the state of producers."""

    aborted: list[AbortedTransaction]
    producer_snapshot: bytes


def build_indexes(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> SegmentIndexes:
    """Return offset and time index of a segment. Raises RemoteStorageError."""
    builder = IndexBuilder(segment.start_offset, INDEX_INTERVAL_BYTES)
    for piece in walk_segment(storage, segment, MAX_DECOMPRESSED_BYTES):
        for position, header, _ in batches_of(piece):
            builder.add(position, header)
    return builder.finish()


def replay_segment(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, before: RemoteLogSegmentMetadata | None
) -> SegmentHistory:
    """Return what happened in a segment; `before` is the one that ends where it begins.

    Raises RemoteStorageError if that cannot be known for certain.
    """
    state = ProducerStateManager()
    state.load(_producers_at_start(storage, segment, before), segment.start_offset)
    aborted: list[AbortedTransaction] = []
    for piece in walk_segment(storage, segment, MAX_DECOMPRESSED_BYTES):
        batches = batches_of(piece)
        if not batches:
            raise RemoteBackendError(f"batches of {segment.segment_id} are damaged", retriable=False)
        for _, header, data in batches:
            completed = replay_batch(state, data, header) if header.has_producer_id else None
            if completed is not None and completed.aborted:
                stable = state.last_stable_offset_after(completed)
                aborted.append(
                    AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                )
    return SegmentHistory(aborted, encode_snapshot(state.entries.values()))


def _producers_at_start(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, before: RemoteLogSegmentMetadata | None
) -> list[ProducerEntry]:
    if segment.start_offset == 0:
        return []
    if before is None or before.end_offset != segment.start_offset - 1:
        raise RemoteBackendError(f"the producers at the begin of {segment.segment_id} are not known", retriable=False)
    try:
        return decode_snapshot(storage.fetch_index(before, IndexType.PRODUCER_SNAPSHOT), str(before.segment_id))
    except CorruptDataError as error:
        raise RemoteBackendError(f"the producer snapshot of {before.segment_id} is damaged", retriable=False) from error


def same_transactions(one: Sequence[AbortedTransaction], other: Sequence[AbortedTransaction]) -> bool:
    """Return whether two indexes name the same transactions.

    Last stable offsets may differ: a follower of Kafka notes larger ones.
    """
    return [each[:3] for each in one] == [each[:3] for each in other]
