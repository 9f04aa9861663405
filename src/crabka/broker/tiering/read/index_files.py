"""Index files of remote segments on this disk, as Kafka's RemoteIndexCache keeps them.

    <log dir>/remote-log-index-cache/<start offset>_<segment id>.{index,timeindex,txnindex}

Owns names and bytes. Every call may wait for the disk or the tier and runs in a thread. The files only save downloads:
an unreadable or unwritable one is skipped, and an invalid one is dropped and fetched again.

The checksums of the files are kept in memory. After a restart they are not known: then only offset indexes are taken
from this disk, because every entry of them is compared with the batches before it is used (`part_check`). An index that
is damaged in the tier is built from the batches (`segment_rebuild`).
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from crabka.broker.tiering.read.healing.segment_rebuild import build_indexes, replay_segment, same_transactions
from crabka.errors import CorruptDataError
from crabka.formats.file_names import REMOTE_INDEX_CACHE, cached_index_name, parse_cached_index_name
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import TimeIndex
from crabka.formats.transaction_index import decode_aborted, encode_aborted
from crabka.remote.errors import RemoteBackendError, RemoteStorageError, SegmentNotFoundError
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.formats.transaction_index import AbortedTransaction
    from crabka.ports import FileSystem
    from crabka.remote.segments import RemoteLogSegmentMetadata

logger = logging.getLogger(__name__)

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


class LoadRules(NamedTuple):
    """How an index is loaded."""

    # Whether what lies on this disk is not to be used.
    is_anew: bool = False
    # The segment before, which has the state of producers at the begin of this one.
    before: RemoteLogSegmentMetadata | None = None


DEFAULT_RULES: Final = LoadRules()


class IndexFiles:
    """The directory of fetched indexes."""

    def __init__(self, fs: FileSystem, log_dir: str, storage: RemoteStorageManager) -> None:
        self._fs = fs
        self._path = posixpath.join(log_dir, REMOTE_INDEX_CACHE)
        self._storage = storage
        self._checksums: dict[str, int] = {}
        self._is_directory = type(storage).open_local is not RemoteStorageManager.open_local

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

    def load(
        self, segment: RemoteLogSegmentMetadata, kind: IndexType, wanted: LoadRules = DEFAULT_RULES
    ) -> LoadedIndex:
        """Return an index, from this disk or else from the tier. Raises RemoteStorageError.

        A transaction index that is damaged in the tier, and cannot be built from the batches, is an error: nothing else
        can stand for it.
        """
        path = posixpath.join(self._path, file_name(segment, kind))
        if not wanted.is_anew and (kept := self._load_kept(path, segment, kind)) is not None:
            return kept
        data = self._fetch(segment, kind)
        try:
            index = decode_index(segment, kind, data)
            if isinstance(index, list) and self._is_directory:
                index = self._compared(segment, index, wanted.before)
        except CorruptDataError as error:
            index = self._rebuilt(segment, kind, wanted.before, error)
        data = encode_aborted(index) if isinstance(index, list) else index.encode()
        return LoadedIndex(index, len(data), self._store(path, data))

    def _load_kept(self, path: str, segment: RemoteLogSegmentMetadata, kind: IndexType) -> LoadedIndex | None:
        """Return what lies on this disk, None if there is nothing that can be relied on."""
        try:
            data = read_file(self._fs, path)
        except OSError:
            return None
        known = self._checksums.get(path)
        # Kafka leaves an empty file for want of a transaction index, which proves nothing.
        if known is None and (kind is not IndexType.OFFSET or not data):
            return None
        try:
            if known is not None and known != crc32c(data):
                raise CorruptDataError(path, "its checksum is not the one it was written with")
            return LoadedIndex(decode_index(segment, kind, data), len(data), len(data))
        except CorruptDataError as error:
            logger.warning("%s is damaged, and is fetched again from the remote tier: %s", path, error)
            return None

    def _compared(
        self,
        segment: RemoteLogSegmentMetadata,
        found: list[AbortedTransaction],
        before: RemoteLogSegmentMetadata | None,
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions as the batches have them. Raises CorruptDataError if the index has others.

        Only for a directory: it has no checksums of its own, as object stores have, and costs no download.
        """
        try:
            history = replay_segment(self._storage, segment, before)
        except RemoteStorageError:
            # Nothing contradicts it.
            return found
        if not same_transactions(found, history.aborted):
            raise CorruptDataError(str(segment.segment_id), "it does not have the transactions that the batches abort")
        return history.aborted

    def _rebuilt(
        self,
        segment: RemoteLogSegmentMetadata,
        kind: IndexType,
        before: RemoteLogSegmentMetadata | None,
        reason: CorruptDataError,
    ) -> OffsetIndex | TimeIndex | list[AbortedTransaction]:
        logger.warning(
            "%s-%d: %s in the remote tier is damaged, and is built from the batches: %s. `crabka tier fsck` checks the "
            "whole tier.",
            segment.topic_id_partition.topic,
            segment.topic_id_partition.partition,
            object_path(segment, kind),
            reason,
        )
        if kind is IndexType.TRANSACTION:
            try:
                return replay_segment(self._storage, segment, before).aborted
            except RemoteStorageError as error:
                raise RemoteBackendError(f"{reason} in the remote tier, and {error}") from error
        indexes = build_indexes(self._storage, segment)
        return indexes.offsets if kind is IndexType.OFFSET else indexes.times

    def remove(self, names: list[str]) -> None:
        """Remove files; those that are gone are fine."""
        for name in names:
            path = posixpath.join(self._path, name)
            self._checksums.pop(path, None)
            with contextlib.suppress(OSError):
                self._fs.unlink(path)

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
        self._checksums[path] = crc32c(data)
        return len(data)


def file_name(segment: RemoteLogSegmentMetadata, kind: IndexType) -> str:
    """Return the name of an index file, as in Kafka."""
    return cached_index_name(segment.start_offset, segment.segment_id.id, kind.value)


def decode_index(
    segment: RemoteLogSegmentMetadata, kind: IndexType, data: bytes
) -> OffsetIndex | TimeIndex | list[AbortedTransaction]:
    """Read an index and check it against the segment. Raises CorruptDataError."""
    where, base, last = str(segment.segment_id), segment.start_offset, segment.end_offset
    if kind is IndexType.OFFSET:
        offsets = OffsetIndex.decode(base, data, where)
        if offsets.last_offset > last or offsets.last_position > segment.segment_size_bytes:
            raise CorruptDataError(where, "offset index extends past the end of the segment")
        return offsets
    if kind is IndexType.TIMESTAMP:
        times = TimeIndex.decode(base, data, where)
        if len(times) and times.last.offset > last:
            raise CorruptDataError(where, "time index extends past the end of the segment")
        return times
    aborted = decode_aborted(data, where)
    for entry in aborted:
        if not base <= entry.last_offset <= last or not 0 <= entry.first_offset < entry.last_offset:
            raise CorruptDataError(where, "transaction index extends past the end of the segment")
        if entry.producer_id < 0 or entry.last_stable_offset < 0:
            raise CorruptDataError(where, "transaction index has a number below zero")
    return aborted


def _key_of(name: str) -> IndexKey | None:
    try:
        segment_id, suffix = parse_cached_index_name(name)
        kind = IndexType(suffix)
    except ValueError:
        return None
    return (segment_id, kind) if kind in CACHED_TYPES else None
