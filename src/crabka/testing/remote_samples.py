"""Remote segments for tests, metadata and files: short to write, and the same in every run."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from crabka.remote.segments import (
    CustomMetadata,
    LogSegmentData,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

if TYPE_CHECKING:
    from crabka.ports import FileSystem

SAMPLE_PARTITION = TopicIdPartition(uuid.UUID(int=0x5EED), "events", 3)


def sample_segment(
    number: int,
    offsets: tuple[int, int],
    epochs: dict[int, int] | None = None,
    *,
    partition: TopicIdPartition = SAMPLE_PARTITION,
    size_bytes: int = 1_000,
    with_txn_index: bool = False,
) -> RemoteLogSegmentMetadata:
    """Return a segment whose copy begins.

    `number` becomes its id; `offsets` are the first and the last; `epochs` has first offsets, epoch 0 if not given.
    """
    first, last = offsets
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid.UUID(int=number)),
        start_offset=first,
        end_offset=last,
        max_timestamp_ms=1_700_000_000_000 + last,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_000,
        segment_size_bytes=size_bytes,
        leader_epochs=tuple((epochs or {0: first}).items()),
        txn_index_empty=not with_txn_index,
    )


def sample_update(
    segment: RemoteLogSegmentMetadata,
    state: RemoteLogSegmentState,
    *,
    broker_id: int = 1,
    event_timestamp_ms: int = 1_700_000_001_000,
    custom_metadata: CustomMetadata | None = None,
) -> RemoteLogSegmentMetadataUpdate:
    """Return a step in the life of a segment."""
    return RemoteLogSegmentMetadataUpdate(
        segment_id=segment.segment_id,
        event_timestamp_ms=event_timestamp_ms,
        state=state,
        broker_id=broker_id,
        custom_metadata=custom_metadata,
    )


def sample_partition_delete(
    state: RemotePartitionDeleteState, *, partition: TopicIdPartition = SAMPLE_PARTITION
) -> RemotePartitionDeleteMetadata:
    """Return a step in the deletion of a partition."""
    return RemotePartitionDeleteMetadata(
        topic_id_partition=partition, state=state, event_timestamp_ms=1_700_000_002_000, broker_id=1
    )


def in_state(segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> RemoteLogSegmentMetadata:
    """Return a segment as it is when the update of `sample_update` brought it into a state."""
    if state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return replace(segment, state=state)
    return segment.with_update(sample_update(segment, state))


def write_sample_files(
    fs: FileSystem, directory: str, log: bytes, *, with_txn_index: bool = False, epochs: str = "0\n1\n0 0\n"
) -> LogSegmentData:
    """Write the files of a local segment, with different contents, and return their paths."""
    contents = {".log": log, ".index": b"offsets", ".timeindex": b"times" * 12, ".snapshot": b"producers"}
    if with_txn_index:
        contents[".txnindex"] = b"aborted transactions"
    for suffix, content in contents.items():
        file = fs.open(_sample_path(directory, suffix), create=True)
        file.truncate(0)
        file.pwritev([content], 0)
        file.close()
    return LogSegmentData(
        log_segment=_sample_path(directory, ".log"),
        offset_index=_sample_path(directory, ".index"),
        time_index=_sample_path(directory, ".timeindex"),
        producer_snapshot_index=_sample_path(directory, ".snapshot"),
        transaction_index=_sample_path(directory, ".txnindex") if with_txn_index else None,
        leader_epoch_index=epochs.encode(),
    )


def _sample_path(directory: str, suffix: str) -> str:
    return f"{directory}/{0:020d}{suffix}"
