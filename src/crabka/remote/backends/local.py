"""A directory as a tier, in the layout and with the setting of Kafka's LocalTieredStorage.

A segment is there if its `.log` is: that file gets its name after all others are durable under theirs, and loses it
before they go. Several nodes may share the directory. A partition's directory may vanish and come back at any moment,
but not while there is a file in it.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from crabka.config.keys import REQUIRED, STRING, ConfigKey
from crabka.config.validators import NotEmpty
from crabka.errors import ConfigError, require
from crabka.ports import Buffer, File, FileSystem
from crabka.remote.backends.settings import StorageSettings
from crabka.remote.backends.uploads import Source, index_sources, opened, pieces
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError, TruncatedObjectError
from crabka.remote.layout import index_paths, object_path, partition_directory, positions
from crabka.remote.listing import TierObject
from crabka.remote.segments import CustomMetadata, IndexType, LogSegmentData, RemoteLogSegmentMetadata
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.vfs import OsFileSystem, read_file

LOCAL_KEYS = (
    ConfigKey("dir", STRING, REQUIRED, "The directory that holds kafka-tiered-storage, the tier.", NotEmpty()),
)
ROOT_NAME = "kafka-tiered-storage"
TEMPORARY_SUFFIX = ".tmp"

_PIECE_BYTES = 1 << 20
# A directory is not removed so often between its creation and its first file.
_DIRECTORY_TRIES = 100


def open_root(fs: FileSystem, settings: Mapping[str, str]) -> str:
    """Return the root of the tier that `dir` names, made if need be. Raises ConfigError."""
    root = posixpath.join(StorageSettings(LOCAL_KEYS, settings).text("dir"), ROOT_NAME)
    try:
        _make_durable_directory(fs, root)
    except OSError as error:
        raise ConfigError(f"dir of the remote tier's storage cannot be used: {error}") from error
    return root


def _make_durable_directory(fs: FileSystem, path: str) -> None:
    """Make a directory with its parents so that a crash cannot take them back, with all that is put in later."""
    new = [path]
    while not fs.exists(parent := posixpath.dirname(new[-1]) or "."):
        new.append(parent)
    fs.makedirs(path)
    for name in new:
        fs.fsync_dir(posixpath.dirname(name) or ".")


class LocalTieredStorage(RemoteStorageManager):
    """Keeps segments in a directory; several instances and processes may use it at the same time."""

    def __init__(self, fs: FileSystem | None = None, root: str = "") -> None:
        """Use `root` as it is; without it `configure` decides."""
        self._fs: FileSystem = OsFileSystem() if fs is None else fs
        self._configured_root = root

    def __repr__(self) -> str:
        return f"LocalTieredStorage({self._configured_root!r})"

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take `dir`, in which the tier is the directory kafka-tiered-storage. Raises ConfigError."""
        self._configured_root = open_root(self._fs, settings)

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        """Store a segment. Raises RemoteBackendError, or OSError if a local file cannot be read."""
        try:
            self._write_all(metadata, data)
            self._publish(metadata, data)
        except BaseException:
            # What cannot be removed now goes with the deletion that follows every failed copy.
            with suppress(RemoteBackendError):
                self.delete_log_segment_data(metadata)
            raise
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        """Return bytes of the segment, and read no others."""
        span = positions(metadata, start, end)
        path = self._path(object_path(metadata))
        with self._found(metadata, "log"), opened(self._fs, path) as file:
            return _read_whole(file, span)

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        """Return the same bytes in pieces; the file is open until the last one or the close of the iterator."""
        span = positions(metadata, start, end)
        with self._found(metadata, "log"):
            file = self._fs.open(self._path(object_path(metadata)), read_only=True)
        return _FilePieces(file, span)

    def open_local(self, metadata: RemoteLogSegmentMetadata) -> File | None:
        """Open the file of the batches, which is written once and never changed."""
        with self._found(metadata, "log"):
            return self._fs.open(self._path(object_path(metadata)), read_only=True)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return a whole index."""
        with self._found(metadata, f"{index_type.name} index"):
            self._fs.stat(self._path(object_path(metadata)))
            return read_file(self._fs, self._path(object_path(metadata, index_type)))

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove a segment with what an interrupted copy left, and its directory if that is empty then."""
        with self._tier(f"delete {metadata.segment_id}"):
            self._fs.stat(self._root)  # a root that is not mounted holds more than nothing
            log_path = object_path(metadata)
            self._unlink_all([log_path, log_path + TEMPORARY_SUFFIX], metadata)
            indexes = index_paths(metadata)
            self._unlink_all([*indexes, *(path + TEMPORARY_SUFFIX for path in indexes)], metadata)
            self._remove_if_empty(metadata)

    def list_objects(self, prefix: str = "") -> Iterator[TierObject]:
        """Return the files in directories whose names begin with `prefix`; see TierListing."""
        with self._tier("list the tier"):
            for name in self._fs.listdir(self._root):
                if name.startswith(prefix):
                    yield from self._list_entry(name)

    @property
    def _root(self) -> str:
        require(bool(self._configured_root), "LocalTieredStorage is used before it is configured")
        return self._configured_root

    def _path(self, relative: str) -> str:
        return posixpath.join(self._root, relative)

    def _write_all(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        for index_type, source in index_sources(data).items():
            self._write_temporary(object_path(metadata, index_type), source)
        self._write_temporary(object_path(metadata), data.log_segment)

    def _write_temporary(self, relative: str, source: Source) -> None:
        if isinstance(source, bytes):
            self._write(relative, iter([source]))
            return
        with opened(self._fs, source) as file:
            self._write(relative, pieces(file, file.size(), _PIECE_BYTES))

    def _write(self, relative: str, content: Iterator[bytes]) -> None:
        """Write and sync the temporary file of an object. Errors of `content` pass as they are."""
        with self._tier(f"write {relative}"):
            file = self._create(self._path(relative) + TEMPORARY_SUFFIX)
        try:
            position = 0
            with self._tier(f"write {relative}"):
                file.truncate(0)  # an interrupted copy may have left it
            for piece in content:
                with self._tier(f"write {relative}"):
                    position += file.pwritev([piece], position)
            with self._tier(f"write {relative}"):
                file.fsync()
        finally:
            file.close()

    def _create(self, path: str) -> File:
        for _ in range(_DIRECTORY_TRIES):
            # Another node may remove the directory while it is empty.
            with suppress(FileNotFoundError, FileExistsError):
                self._fs.makedirs(posixpath.dirname(path))
                return self._fs.open(path, create=True)
        raise FileNotFoundError(errno.ENOENT, "the directory does not stay", posixpath.dirname(path))

    def _publish(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        """Give all files their names, the `.log` after the others are durable."""
        directory = self._path(partition_directory(metadata.topic_id_partition))
        with self._tier(f"store {metadata.segment_id}"):
            for index_type in index_sources(data):
                self._rename_temporary(object_path(metadata, index_type))
            self._fs.fsync_dir(directory)
            self._fs.fsync_dir(self._root)
            self._rename_temporary(object_path(metadata))
            self._fs.fsync_dir(directory)

    def _rename_temporary(self, relative: str) -> None:
        path = self._path(relative)
        self._fs.rename(path + TEMPORARY_SUFFIX, path)

    def _unlink_all(self, relatives: list[str], metadata: RemoteLogSegmentMetadata) -> None:
        """Remove those of the files that exist, durably."""
        removed = False
        for relative in relatives:
            with suppress(FileNotFoundError):
                self._fs.unlink(self._path(relative))
                removed = True
        if removed:
            with suppress(FileNotFoundError):  # another node found the directory empty already
                self._fs.fsync_dir(self._path(partition_directory(metadata.topic_id_partition)))

    def _remove_if_empty(self, metadata: RemoteLogSegmentMetadata) -> None:
        try:
            self._fs.rmdir(self._path(partition_directory(metadata.topic_id_partition)))
        except OSError as error:
            # POSIX lets a file system say either of the first two.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
        else:
            self._fs.fsync_dir(self._root)

    def _list_entry(self, name: str) -> Iterator[TierObject]:
        try:
            status = self._fs.stat(self._path(name))
            if not status.is_dir:
                yield TierObject("", name, status.size_bytes, status.modified_ms)
                return
            inner_names = self._fs.listdir(self._path(name))
        except FileNotFoundError:  # removed since
            return
        for inner in inner_names:
            with suppress(FileNotFoundError):
                status = self._fs.stat(self._path(f"{name}/{inner}"))
                yield TierObject(name, inner, status.size_bytes, status.modified_ms)

    @contextmanager
    def _tier(self, action: str) -> Iterator[None]:
        """Turn what the tier's own disk says into the error of a store."""
        try:
            yield
        except OSError as error:
            raise RemoteBackendError(f"cannot {action} in {self!r}: {error}") from error

    @contextmanager
    def _found(self, metadata: RemoteLogSegmentMetadata, what: str) -> Iterator[None]:
        """As _tier for a read: what does not exist is not found, unless the whole tier is away."""
        with self._tier(f"read {what} of {metadata.segment_id}"):
            try:
                yield
            except FileNotFoundError as error:
                self._fs.stat(self._root)
                raise SegmentNotFoundError(metadata.segment_id, what) from error


class _FilePieces(Iterator[Buffer]):
    """Pieces of an open file, which is closed after the last one, after an error and by `close`."""

    def __init__(self, file: File, span: range) -> None:
        self._file = file
        self._rest = span

    def __next__(self) -> Buffer:
        span, self._rest = self._rest[:_PIECE_BYTES], self._rest[_PIECE_BYTES:]
        if not span:
            self.close()
            raise StopIteration
        try:
            return _read_whole(self._file, span)
        except OSError as error:
            self.close()
            raise RemoteBackendError(f"cannot read {self._file.path}: {error}") from error
        except RemoteBackendError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; there are no more pieces."""
        self._rest = range(0)
        self._file.close()


def _read_whole(file: File, span: range) -> bytes:
    data = file.pread(len(span), span.start)
    if len(data) < len(span):
        raise TruncatedObjectError(f"{file.path} has only {file.size()} bytes")
    return data
