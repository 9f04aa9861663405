"""The port of the remote tier: where bytes of segments go (KIP-405, RemoteStorageManager).

Synchronous and thread-safe: the broker calls it from a bounded pool. Implementations are in `backends`; a third-party
one is named by `remote.log.storage.manager.class.name = package.module:Class`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.ports import Buffer, File
    from crabka.remote.segments import CustomMetadata, IndexType, LogSegmentData, RemoteLogSegmentMetadata


class RemoteStorageManager(ABC):
    """Keeps segments. Methods raise RemoteStorageError and its kinds, nothing else, for what the store does."""

    def configure(self, settings: Mapping[str, str]) -> None:  # noqa: B027 - nothing to configure is fine
        """Take the settings below `rsm.config.`, without that prefix. Called once, before anything else.

        Raises ConfigError that says which setting is wrong.
        """

    @abstractmethod
    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        """Store a segment with all that belongs to it; when it returns, a crash cannot take it back.

        What it returns is kept and handed in with the metadata of later calls. If it raises, nothing of the segment can
        be fetched, and what was stored is removed or goes with `delete_log_segment_data`.
        """

    @abstractmethod
    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        """Return bytes of the segment from position `start` to `end`, both included; no `end` means all the rest.

        An end after the segment is cut, a start at its end returns nothing. Raises InvalidRangeError for a start after
        the end or an end before the start, SegmentNotFoundError, RemoteBackendError.
        """

    @abstractmethod
    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        """Return the same bytes in pieces, of which only few are in memory at a time.

        The caller reads to the end or closes the iterator.
        """

    @abstractmethod
    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return a whole index. Raises SegmentNotFoundError if the segment has none of that kind."""

    @abstractmethod
    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove a segment with all that belongs to it; what is not there is fine."""

    def open_local(self, metadata: RemoteLogSegmentMetadata) -> File | None:  # noqa: ARG002 - for those who have files
        """Open the batches of a segment for reading if they are a file on this machine, else return None.

        Such a file is sent to consumers as it lies there: it must not change, and once open stay readable even if the
        segment is deleted. The caller closes it. Raises SegmentNotFoundError, RemoteBackendError.
        """
        return None

    def close(self) -> None:  # noqa: B027 - nothing to close is fine
        """Close connections and threads."""
