"""A remote tier in memory: like a bucket, it outlives the crashes of the nodes of a test.

Local files are read through the file system of the node that copies. It does not check which leader may copy what.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from crabka.remote.errors import InvalidRangeError, RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import CustomMetadata, IndexType
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.vfs import OsFileSystem, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.ports import Buffer, FileSystem
    from crabka.remote.segments import LogSegmentData, RemoteLogSegmentId, RemoteLogSegmentMetadata

_PIECE_BYTES = 64 * 1024


class InmemoryRemoteStorage(RemoteStorageManager):
    """Keeps segments in a dict. Thread-safe.

    With `wants_custom_metadata` it returns some from a copy, and refuses to fetch for a caller that did not keep it.
    """

    def __init__(self, fs: FileSystem | None = None, *, wants_custom_metadata: bool = False) -> None:
        """Read local files through `fs`, by default from the operating system."""
        self._fs: FileSystem = OsFileSystem() if fs is None else fs
        self._wants_custom_metadata = wants_custom_metadata
        self._lock = Lock()
        self._segments: dict[RemoteLogSegmentId, tuple[bytes, dict[IndexType, bytes]]] = {}

    def segment_ids(self) -> list[RemoteLogSegmentId]:
        """Return what is stored, in the order in which it came."""
        with self._lock:
            return list(self._segments)

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        """Store a segment in one step. Raises OSError if a local file cannot be read."""
        content = read_file(self._fs, data.log_segment)
        paths = {
            IndexType.OFFSET: data.offset_index,
            IndexType.TIMESTAMP: data.time_index,
            IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot_index,
        }
        if data.transaction_index is not None:
            paths[IndexType.TRANSACTION] = data.transaction_index
        indexes = {index_type: read_file(self._fs, path) for index_type, path in paths.items()}
        indexes[IndexType.LEADER_EPOCH] = data.leader_epoch_index
        with self._lock:
            self._segments[metadata.segment_id] = (content, indexes)
        return _custom_metadata(metadata) if self._wants_custom_metadata else None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        """Return bytes of the segment."""
        content, _indexes = self._found(metadata)
        if not 0 <= start <= len(content):
            raise InvalidRangeError(f"{metadata.segment_id} has {len(content)} bytes and no position {start}")
        if end is None:
            return content[start:]
        if end < start:
            raise InvalidRangeError(f"{metadata.segment_id} cannot be read from {start} back to {end}")
        return content[start : end + 1]

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        """Return the same bytes in pieces."""
        content = self.fetch_log_segment(metadata, start, end)
        return (content[position : position + _PIECE_BYTES] for position in range(0, len(content), _PIECE_BYTES))

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return a whole index."""
        _content, indexes = self._found(metadata)
        if index_type not in indexes:
            raise SegmentNotFoundError(metadata.segment_id, f"{index_type.name} index")
        return indexes[index_type]

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove a segment; also for a caller without its custom metadata, as after a crash during the copy."""
        with self._lock:
            self._segments.pop(metadata.segment_id, None)

    def _found(self, metadata: RemoteLogSegmentMetadata) -> tuple[bytes, dict[IndexType, bytes]]:
        with self._lock:
            found = self._segments.get(metadata.segment_id)
        if found is None:
            raise SegmentNotFoundError(metadata.segment_id)
        if self._wants_custom_metadata and metadata.custom_metadata != _custom_metadata(metadata):
            raise RemoteBackendError(f"{metadata.segment_id} comes without its custom metadata", retriable=False)
        return found


def _custom_metadata(metadata: RemoteLogSegmentMetadata) -> CustomMetadata:
    return CustomMetadata(metadata.segment_id.id.bytes[::-1])
