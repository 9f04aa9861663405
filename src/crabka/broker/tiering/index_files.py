"""Index files of remote segments on this disk, as Kafka's RemoteIndexCache keeps them.

    <log dir>/remote-log-index-cache/<start offset>_<segment id>.{index,timeindex,txnindex}

Owns names and bytes. Every call may wait for the disk or the tier and runs in a thread. The files only save downloads:
one that cannot be read or written is done without, and one that makes no sense is dropped and fetched anew.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.ids import uuid_from_text, uuid_to_text
from crabka.log.offset_index import OffsetIndex
from crabka.log.time_index import TimeIndex
from crabka.log.txn_index import decode_aborted
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import IndexType
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.log.txn_index import AbortedTransaction
    from crabka.ports import FileSystem
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

logger = logging.getLogger(__name__)

DIRECTORY: Final = "remote-log-index-cache"
CACHED_TYPES: Final = (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION)
IndexKey = tuple[uuid.UUID, IndexType]


class LoadedIndex(NamedTuple):
    """An index as it is used, and how many bytes of it lie on this disk; 0 if it is not stored."""

    content: OffsetIndex | TimeIndex | list[AbortedTransaction]
    encoded_bytes: int
    stored_bytes: int


class StoredIndex(NamedTuple):
    """A file that was found at the start."""

    key: IndexKey
    name: str
    size_bytes: int
    modified_ms: int


class IndexFiles:
    """The directory of fetched indexes."""

    def __init__(self, fs: FileSystem, log_dir: str, storage: RemoteStorageManager) -> None:
        self._fs = fs
        self._path = posixpath.join(log_dir, DIRECTORY)
        self._storage = storage

    def open(self) -> list[StoredIndex]:
        """Return what an earlier run has left, the oldest first; files that are none of these are removed."""
        try:
            self._fs.makedirs(self._path)
            found = []
            for name in self._fs.listdir(self._path):
                key = _key_of(name)
                path = posixpath.join(self._path, name)
                if key is None:
                    self._fs.unlink(path)
                    continue
                stat = self._fs.stat(path)
                found.append(StoredIndex(key, name, stat.size_bytes, stat.modified_ms))
        except OSError as error:
            logger.warning("Indexes of the remote tier are not kept on disk: %s", error)
            return []
        return sorted(found, key=lambda stored: stored.modified_ms)

    def load(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> LoadedIndex:
        """Return an index, from this disk or else from the tier. Raises RemoteStorageError.

        One that makes no sense in the tier either is taken for missing, which only makes searches longer, except that
        nothing can stand for a transaction index.
        """
        path = posixpath.join(self._path, file_name(segment, kind))
        with contextlib.suppress(OSError, CorruptDataError):
            data = read_file(self._fs, path)
            # Kafka leaves an empty file for want of a transaction index, which proves nothing.
            if data or kind is not IndexType.TRANSACTION:
                return LoadedIndex(decode_index(segment, kind, data), len(data), len(data))
        data = self._fetch(segment, kind)
        try:
            index = decode_index(segment, kind, data)
        except CorruptDataError as error:
            logger.warning("%s of %s is damaged: %s", kind.value, segment.segment_id, error)
            if kind is IndexType.TRANSACTION:
                raise RemoteBackendError(f"{error} in the remote tier") from error
            return LoadedIndex(decode_index(segment, kind, b""), 0, 0)
        return LoadedIndex(index, len(data), self._store(path, data))

    def remove(self, names: list[str]) -> None:
        """Remove files; those that are gone are fine."""
        for name in names:
            with contextlib.suppress(OSError):
                self._fs.unlink(posixpath.join(self._path, name))

    def _fetch(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes:
        try:
            return self._storage.fetch_index(segment, kind)
        except SegmentNotFoundError:
            # Without aborted transactions there is no such index, and without the others batches are looked through.
            return b""

    def _store(self, path: str, data: bytes) -> int:
        if not data:
            return 0
        try:
            write_atomic(self._fs, path, data)
        except OSError as error:
            logger.warning("Cannot keep %s: %s", path, error)
            return 0
        return len(data)


def file_name(segment: RemoteLogSegmentMetadata, kind: IndexType) -> str:
    """Return the name of an index file, as in Kafka."""
    return f"{segment.start_offset}_{uuid_to_text(segment.segment_id.id)}{kind.value}"


def decode_index(
    segment: RemoteLogSegmentMetadata, kind: IndexType, data: bytes
) -> OffsetIndex | TimeIndex | list[AbortedTransaction]:
    """Read an index and check it against the segment. Raises CorruptDataError."""
    where, base, last = str(segment.segment_id), segment.start_offset, segment.end_offset
    if kind is IndexType.OFFSET:
        offsets = OffsetIndex.decode(base, data, where)
        if offsets.last_offset > last or offsets.last_position > segment.segment_size_bytes:
            raise CorruptDataError(where, "offset index goes behind the end of the segment")
        return offsets
    if kind is IndexType.TIMESTAMP:
        times = TimeIndex.decode(base, data, where)
        if len(times) and times.last.offset > last:
            raise CorruptDataError(where, "time index goes behind the end of the segment")
        return times
    aborted = decode_aborted(data, where)
    if aborted and not base <= aborted[-1].last_offset <= last:
        raise CorruptDataError(where, "transaction index goes behind the end of the segment")
    return aborted


def _key_of(name: str) -> IndexKey | None:
    stem, dot, suffix = name.rpartition(".")
    _, _, text = stem.partition("_")
    try:
        kind = IndexType(dot + suffix)
        return (uuid_from_text(text), kind) if kind in CACHED_TYPES else None
    except ValueError:
        return None
