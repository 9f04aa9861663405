"""The steps in which a copy of a log grows: bytes of a segment, its end, what is no longer needed, durability.

Each is chosen on the loop with all that it needs, runs in a thread, and reports its result to the copy on the loop.
They touch the files of the copy only; of the source they read what is there for good.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from crabka.broker.logdirs.disk_errors import SourceChangedError, blaming
from crabka.formats.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_offset,
    offset_name,
)
from crabka.formats.transaction_index import encode_aborted
from crabka.log.segment.scan import scan_headers
from crabka.records.header import HEADER_SIZE, parse_header
from crabka.vfs import read_file, write_atomic, write_synced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.broker.logdirs.future_log import FutureLog
    from crabka.formats.transaction_index import AbortedTransaction
    from crabka.log.partition.moving import CopyableSegment, SmallFiles
    from crabka.ports import File, FileSystem

_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class CopyBytes:
    """Copies whole batches of one segment."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        source: CopyableSegment,
        *,
        source_dir: str,
        position: int,
        max_bytes: int,
        foreign_end: int,
        generation: int,
    ) -> None:
        """Up to `foreign_end` the copy may hold bytes that an earlier run or another source wrote."""
        self.generation = generation
        self._fs = fs
        self._path = path
        self._source = source
        self._source_dir = source_dir
        self._position = position
        self._max_bytes = max_bytes
        self._foreign_end = foreign_end
        self._end = position
        self._end_offset = -1

    def run(self) -> int:
        """Write what the source has and the copy does not."""
        with blaming(self._source_dir), _changing():
            handle = self._source.segment.handle()  # keeps the file open
            self._find_end(handle.file)
        target_dir = posixpath.dirname(self._path)
        with blaming(target_dir):
            file = self._fs.open(f"{self._path}/{offset_name(self._source.base_offset)}{LOG_SUFFIX}", create=True)
        try:
            must_compare = self._foreign_end > self._position
            if not must_compare and self._has_copied(handle.file, file):
                return self._end - self._position
            with blaming(self._source_dir), _changing():
                data = self._read(handle.file)
            with blaming(target_dir):
                if must_compare and file.pread(len(data), self._position) == data:
                    return 0
                return file.pwritev([data], self._position)
        finally:
            file.close()

    def _find_end(self, source: File) -> None:
        self._end = self._chunk_end(source)
        if self._end == self._source.size:
            self._end_offset = self._source.end_offset
        else:
            self._end_offset = parse_header(source.pread(HEADER_SIZE, self._end)).base_offset

    def _has_copied(self, source: File, target: File) -> bool:
        """Copy in one go. False if that fails: separate reading and writing show which of the two disks it is."""
        length = self._end - self._position
        try:
            if target.copy_from(source, length, self._position) < length:
                return False
            # The disk writes while more is copied, and little is left to wait for at the end.
            target.begin_writeback(length, self._position)
        except OSError:
            return False
        return True

    def _read(self, source: File) -> bytes:
        data = source.pread(self._end - self._position, self._position)
        if len(data) < self._end - self._position:
            raise SourceChangedError(f"{source.path} ends before {self._end}")
        return data

    def _chunk_end(self, file: File) -> int:
        size, position, limit = self._source.size, self._position, self._max_bytes
        if size - position <= limit:
            return size
        indexed = self._source.segment.indexes().offsets.batch_start_before(position + limit + 1)
        if position < indexed < size:
            return indexed
        for at, header in scan_headers(file, position, size):
            if at + header.size_in_bytes - position >= limit:
                return min(at + header.size_in_bytes, size)
        return size

    def apply(self, copy: FutureLog) -> None:
        """Note how far the segment is copied."""
        mirrored = copy.mirrored[self._source.base_offset]
        mirrored.copied = self._end
        mirrored.synced = min(mirrored.synced, self._position)
        # Nothing else was written meanwhile.
        mirrored.written = max(self._foreign_end, self._end)
        copy.end_offset = self._end_offset


class FinishSegment:
    """Gives a segment that is sealed and copied its indexes and makes it durable."""

    def __init__(self, fs: FileSystem, path: str, source: CopyableSegment, *, source_dir: str, generation: int) -> None:
        self.generation = generation
        self._fs = fs
        self._path = path
        self._source = source
        self._source_dir = source_dir

    def run(self) -> int:
        """Write the index files and sync everything of the segment."""
        segment = self._source.segment
        with blaming(self._source_dir), _changing():
            indexes, aborted = segment.indexes(), segment.aborted()
        stem = f"{self._path}/{offset_name(self._source.base_offset)}"
        with blaming(posixpath.dirname(self._path)):
            sync_at_length(self._fs, stem + LOG_SUFFIX, self._source.size)
            written = write_synced(self._fs, stem + INDEX_SUFFIX, indexes.offsets.encode())
            written += write_synced(self._fs, stem + TIME_INDEX_SUFFIX, indexes.times.encode())
            return written + _replace_aborted(self._fs, stem + TXN_INDEX_SUFFIX, aborted)

    def apply(self, copy: FutureLog) -> None:
        """Note that the segment is durable."""
        mirrored = copy.mirrored[self._source.base_offset]
        mirrored.synced = mirrored.written = self._source.size
        mirrored.is_finished = True
        copy.names_dirty = True
        copy.end_offset = max(copy.end_offset, self._source.end_offset)


class DropSegments:
    """Removes segments that the source does not have any more."""

    def __init__(self, fs: FileSystem, path: str, base_offsets: Sequence[int], *, generation: int) -> None:
        self.generation = generation
        self._fs = fs
        self._path = path
        self._base_offsets = base_offsets

    def run(self) -> int:
        """Remove all files of these segments."""
        with blaming(posixpath.dirname(self._path)):
            for base_offset in self._base_offsets:
                for suffix in _SUFFIXES:
                    path = f"{self._path}/{offset_name(base_offset)}{suffix}"
                    if self._fs.exists(path):
                        self._fs.unlink(path)
        return 0

    def apply(self, copy: FutureLog) -> None:
        """Forget the segments."""
        for base_offset in self._base_offsets:
            del copy.mirrored[base_offset]
        copy.names_dirty = True


class SyncCopy:
    """Makes the copy durable: the ends of segments, epochs, producer snapshots, names."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        small: SmallFiles,
        *,
        positions: Mapping[int, int],
        known_snapshots: frozenset[int],
        known_epochs: bytes | None,
        names_dirty: bool,
        source_dir: str,
        generation: int,
    ) -> None:
        """`known_*` is what the copy has durably; `names_dirty` says that files were created or removed since."""
        self.generation = generation
        self._fs = fs
        self._path = path
        self._small = small
        self._known_epochs = known_epochs
        self._names_dirty = names_dirty
        self._positions = positions
        self._known_snapshots = known_snapshots
        self._source_dir = source_dir
        self._snapshots: set[int] = set()

    def run(self) -> int:
        """Write the small files and sync everything that is not durable yet."""
        fresh = self._read_snapshots()
        small = self._small
        with blaming(posixpath.dirname(self._path)):
            for base_offset, size in self._positions.items():
                sync_at_length(self._fs, f"{self._path}/{offset_name(base_offset)}{LOG_SUFFIX}", size)
            active = f"{self._path}/{offset_name(small.active_base_offset)}"
            _replace_aborted(self._fs, active + TXN_INDEX_SUFFIX, small.aborted)
            for offset, data in fresh.items():
                write_synced(self._fs, f"{self._path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}", data)
            self._drop_snapshots()
            if small.epochs != self._known_epochs:
                write_atomic(self._fs, f"{self._path}/{LEADER_EPOCH_CHECKPOINT}", small.epochs)
            if self._names_dirty or fresh or small.aborted:
                self._fs.fsync_dir(self._path)
        return 0

    def _read_snapshots(self) -> dict[int, bytes]:
        fresh = {}
        self._snapshots = set(self._known_snapshots.intersection(offset for offset, _ in self._small.snapshots))
        for offset, path in self._small.snapshots:
            if offset not in self._known_snapshots:
                with blaming(self._source_dir), suppress(FileNotFoundError):
                    fresh[offset] = read_file(self._fs, path)
                    self._snapshots.add(offset)
        return fresh

    def _drop_snapshots(self) -> None:
        for name in self._fs.listdir(self._path):
            if name.endswith(SNAPSHOT_SUFFIX) and file_offset(name) not in self._snapshots:
                self._fs.unlink(f"{self._path}/{name}")

    def apply(self, copy: FutureLog) -> None:
        """Note what is durable now."""
        for base_offset, size in self._positions.items():
            mirrored = copy.mirrored.get(base_offset)
            if mirrored is not None:
                mirrored.synced = max(mirrored.synced, min(size, mirrored.copied))
        copy.snapshots = self._snapshots
        copy.epochs = self._small.epochs
        copy.names_dirty = False


@contextmanager
def _changing() -> Iterator[None]:
    """Take a file of the source that is gone for a reason to choose the step anew."""
    try:
        yield
    except FileNotFoundError as error:
        raise SourceChangedError(str(error)) from error


def sync_at_length(fs: FileSystem, path: str, size: int) -> None:
    """Let a file of the copy end at `size`, durably; it is created if it is not there."""
    file = fs.open(path, create=True)
    try:
        if file.size() != size:
            file.truncate(size)
        file.fsync()
    finally:
        file.close()


def _replace_aborted(fs: FileSystem, path: str, aborted: Sequence[AbortedTransaction]) -> int:
    if aborted:
        return write_synced(fs, path, encode_aborted(aborted))
    if fs.exists(path):
        fs.unlink(path)
    return 0
