"""Segments to put into a tier: made up on any file system, or those that Apache Kafka stored."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

from crabka.ids import uuid_from_text
from crabka.ports import FileSystem
from crabka.remote.segments import (
    IndexType,
    LogSegmentData,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.remote.storage_manager import RemoteStorageManager
from tests.support.recorded.files import GOLDEN

PARTITION = TopicIdPartition(uuid.UUID(int=0xC0FFEE), "orders.eu-1", 7)


@dataclass(frozen=True)
class LocalSegment:
    """A segment on the local disk, with what its files hold; the key None is the log itself."""

    metadata: RemoteLogSegmentMetadata
    data: LogSegmentData
    contents: dict[IndexType | None, bytes]

    @property
    def log(self) -> bytes:
        """The batches."""
        log = self.contents[None]
        assert log is not None
        return log


def write_segment(
    fs: FileSystem, directory: str, number: int = 1, *, log: bytes = b"batches " * 500, aborted: bool = True
) -> LocalSegment:
    """Write the files of a segment; `number` decides its id and offsets, `aborted` gives it a transaction index."""
    fs.makedirs(directory)
    first = number * 1000
    contents: dict[IndexType | None, bytes] = {
        None: log,
        IndexType.OFFSET: b"offsets %d" % number * 3,
        IndexType.TIMESTAMP: b"times %d" % number * 5,
        IndexType.PRODUCER_SNAPSHOT: b"producers %d" % number,
        IndexType.LEADER_EPOCH: b"0\n1\n0 0\n",
    }
    if aborted:
        contents[IndexType.TRANSACTION] = b"aborted %d" % number
    paths = {kind: f"{directory}/{first:020d}{kind.value if kind else '.log'}" for kind in contents}
    for kind, path in paths.items():
        if kind is not IndexType.LEADER_EPOCH:
            _write(fs, path, contents[kind])
    data = LogSegmentData(
        log_segment=paths[None],
        offset_index=paths[IndexType.OFFSET],
        time_index=paths[IndexType.TIMESTAMP],
        producer_snapshot_index=paths[IndexType.PRODUCER_SNAPSHOT],
        transaction_index=paths.get(IndexType.TRANSACTION),
        leader_epoch_index=contents[IndexType.LEADER_EPOCH],
    )
    return LocalSegment(_metadata(number, len(log), aborted=aborted), data, contents)


def stored_contents(storage: RemoteStorageManager, segment: LocalSegment) -> dict[IndexType | None, bytes]:
    """Return all that a storage gives for a segment."""
    contents: dict[IndexType | None, bytes] = {
        kind: storage.fetch_index(segment.metadata, kind) for kind in indexes(segment)
    }
    contents[None] = bytes(storage.fetch_log_segment(segment.metadata, 0))
    return contents


def indexes(segment: LocalSegment) -> list[IndexType]:
    """Return the kinds of indexes that a segment has."""
    return [kind for kind in segment.contents if kind is not None]


def golden_segments(node: str) -> list[RemoteLogSegmentMetadata]:
    """Return the segments that Kafka finished on a golden node and did not delete, by its own metadata."""
    expected = json.loads((GOLDEN / node / "expected.json").read_text())
    return [
        _golden_metadata(segment)
        for segment in expected["remote_segments"]["segments"]
        if segment["state"] == "COPY_SEGMENT_FINISHED"
    ]


def golden_tier(node: str) -> Path:
    """Return the directory that Kafka was configured to use as a tier."""
    return GOLDEN / node / "tier"


def _metadata(number: int, size_bytes: int, *, aborted: bool) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, uuid.UUID(int=0xABCDEF << 64 | number)),
        start_offset=number * 1000,
        end_offset=number * 1000 + 999,
        max_timestamp_ms=1_700_000_000_000,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_000,
        segment_size_bytes=size_bytes,
        leader_epochs=((0, number * 1000),),
        txn_index_empty=not aborted,
    )


def _golden_metadata(segment: dict[str, str | int | bool]) -> RemoteLogSegmentMetadata:
    partition = TopicIdPartition(
        uuid_from_text(str(segment["topic_id"])), str(segment["topic"]), int(segment["partition"])
    )
    epochs = [pair.split("=") for pair in str(segment["leader_epochs"]).replace(" ", "").split(",")]
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid_from_text(str(segment["segment_id"]))),
        start_offset=int(segment["start_offset"]),
        end_offset=int(segment["end_offset"]),
        max_timestamp_ms=int(segment["max_timestamp"]),
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_bytes=int(segment["size"]),
        leader_epochs=tuple((int(epoch), int(offset)) for epoch, offset in epochs),
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        txn_index_empty=bool(segment["txn_index_empty"]),
    )


def _write(fs: FileSystem, path: str, data: bytes) -> None:
    file = fs.open(path, create=True)
    try:
        file.truncate(0)
        file.pwritev([data], 0)
    finally:
        file.close()
