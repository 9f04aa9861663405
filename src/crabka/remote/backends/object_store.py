"""Segments in an object store: which keys they have and in which order these come and go.

The batches are stored last and deleted first, so that a segment whose batches can be read is complete. Indexes travel
in parallel. Keys are the names of `layout`, so a bucket can be copied to a directory for LocalTieredStorage and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress

from crabka.errors import require
from crabka.ports import Buffer, FileSystem
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.remote.backends.uploads import index_sources, opened, read_source
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.layout import index_paths, object_path, positions
from crabka.remote.listing import TierObject
from crabka.remote.segments import CustomMetadata, IndexType, LogSegmentData, RemoteLogSegmentMetadata
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.vfs import OsFileSystem

STREAM_PIECE_BYTES = 8 << 20
_INDEX_THREADS = 8


class ObjectStoreStorage(RemoteStorageManager):
    """Keeps segments in a bucket that one kind of store opens."""

    def __init__(
        self,
        open_bucket: Callable[[Mapping[str, str], FileSystem], Bucket],
        fs: FileSystem | None = None,
        *,
        make_durable: Callable[[Bucket, list[str]], None] = lambda _bucket, _keys: None,
    ) -> None:
        """`open_bucket` takes the settings and the file system of local files, by default the operating system's.

        `make_durable` is for stores that may lose objects after they acknowledged them; it gets all keys of a segment.
        """
        self._fs: FileSystem = OsFileSystem() if fs is None else fs
        self._open_bucket = open_bucket
        self._make_durable = make_durable
        self._configured_bucket: Bucket | None = None
        # Starts threads only when there is something to do.
        self._index_pool = ThreadPoolExecutor(_INDEX_THREADS, thread_name_prefix="tier-index")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._configured_bucket!r})"

    def configure(self, settings: Mapping[str, str]) -> None:
        """Open the bucket. Raises ConfigError."""
        self._configured_bucket = self._open_bucket(settings, self._fs)

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        """Store a segment. Raises RemoteBackendError, or OSError if a local file cannot be read."""
        try:
            self._put_indexes(metadata, data)
            self._put_log(metadata, data)
            kinds = [None, *index_sources(data)]
            self._make_durable(self._bucket, [object_path(metadata, kind) for kind in kinds])
        except BaseException:
            # What cannot be removed now is removed by the deletion that follows every failed copy.
            with suppress(RemoteBackendError):
                self.delete_log_segment_data(metadata)
            raise
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        """Return bytes of the segment in one request for exactly these."""
        span = positions(metadata, start, end)
        with self._found(metadata, "log"):
            if not span:
                self._bucket.size(object_path(metadata))  # an empty range of a missing segment is an error too
                return b""
            return self._bucket.get_range(object_path(metadata), span)

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        """Return the same bytes in pieces, each of which is requested when it is wanted."""
        return self._stream(metadata, positions(metadata, start, end))

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Return a whole index."""
        with self._found(metadata, f"{index_type.name} index"):
            return self._bucket.get(object_path(metadata, index_type))

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove a segment; parts of uploads that a dead process left are for the bucket's own rules."""
        self._bucket.delete([object_path(metadata)])
        self._bucket.delete(index_paths(metadata))

    def list_objects(self, prefix: str = "") -> Iterator[TierObject]:
        """Return the objects in directories whose names begin with `prefix`; see TierListing."""
        directories = [name for name in self._bucket.directories() if name.startswith(prefix)] if prefix else [""]
        for directory in directories:
            for found in self._bucket.list(directory):
                partition, _, name = found.key.rpartition("/")
                yield TierObject(partition, name, found.size_bytes, found.modified_ms)

    def close(self) -> None:
        """Wait for what is being stored and end the threads."""
        self._index_pool.shutdown()

    @property
    def _bucket(self) -> Bucket:
        bucket = self._configured_bucket
        require(bucket is not None, "a storage is used before it is configured")
        assert bucket is not None  # noqa: S101 - says the same to the type checker
        return bucket

    def _put_indexes(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        def put(index_type: IndexType, source: str | bytes) -> None:
            self._bucket.put(object_path(metadata, index_type), read_source(self._fs, source))

        uploads = [self._index_pool.submit(put, kind, source) for kind, source in index_sources(data).items()]
        # All of them end before the first error is raised, so that nothing appears after the cleanup.
        wait(uploads)
        for upload in uploads:
            upload.result()

    def _put_log(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
        key = object_path(metadata)
        with opened(self._fs, data.log_segment) as file:
            sent_bytes = self._bucket.put_file(key, file)
        try:
            stored_bytes = self._bucket.size(key)
        except ObjectMissingError:
            raise RemoteBackendError(f"{key} is not in {self._bucket.location} after it was written") from None
        if stored_bytes != sent_bytes:
            message = f"{key} in {self._bucket.location} has {stored_bytes} bytes, but {sent_bytes} were written"
            raise RemoteBackendError(message)

    def _stream(self, metadata: RemoteLogSegmentMetadata, span: range) -> Iterator[Buffer]:
        key = object_path(metadata)
        for start in range(span.start, span.stop, STREAM_PIECE_BYTES):
            with self._found(metadata, "log"):
                piece = self._bucket.get_range(key, range(start, min(start + STREAM_PIECE_BYTES, span.stop)))
            yield piece

    @contextmanager
    def _found(self, metadata: RemoteLogSegmentMetadata, what: str) -> Iterator[None]:
        try:
            yield
        except ObjectMissingError:
            raise SegmentNotFoundError(metadata.segment_id, what) from None
