from __future__ import annotations

import threading
from collections.abc import Iterator

import obstore
import pytest
from obstore.store import MemoryStore

from crabka.errors import InvariantError
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.object_store import STREAM_PIECE_BYTES, ObjectStoreStorage
from crabka.remote.errors import InvalidRangeError, RemoteBackendError, SegmentNotFoundError
from crabka.remote.layout import index_paths, object_path
from crabka.remote.segments import IndexType
from crabka.testing import MemoryFileSystem
from tests.support.tiers.object_stores import memory_bucket
from tests.support.tiers.segments import LocalSegment, stored_contents, write_segment


class _ScriptedBucket(Bucket):
    """A bucket in memory that notes what is asked of it and refuses what a test wants refused."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), location="memory")
        self.calls: list[tuple[str, str]] = []
        self.refuse = ""
        self.size_offset = 0
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes) -> None:
        self._note("put", key)
        super().put(key, data)

    def size(self, key: str) -> int:
        self._note("size", key)
        return super().size(key) + self.size_offset

    def delete(self, keys: list[str]) -> None:  # type: ignore[override]
        for key in keys:
            self._note("delete", key)
        super().delete(keys)

    def _note(self, call: str, key: str) -> None:
        with self._lock:
            self.calls.append((call, key))
        if self.refuse and key.endswith(self.refuse):
            raise RemoteBackendError(f"{call} {key} refused")


def open_storage(fs: MemoryFileSystem, bucket: Bucket) -> ObjectStoreStorage:
    storage = ObjectStoreStorage(lambda *_: bucket, fs)
    storage.configure({})
    return storage


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def bucket() -> _ScriptedBucket:
    return _ScriptedBucket()


@pytest.fixture
def storage(fs: MemoryFileSystem, bucket: _ScriptedBucket) -> Iterator[ObjectStoreStorage]:
    storage = open_storage(fs, bucket)
    yield storage
    storage.close()


@pytest.fixture
def segment(fs: MemoryFileSystem) -> LocalSegment:
    return write_segment(fs, "/local")


def test_the_log_comes_last_and_goes_first(
    storage: ObjectStoreStorage, bucket: _ScriptedBucket, segment: LocalSegment
) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)
    log = object_path(segment.metadata)
    assert [key for call, key in bucket.calls if call == "put"][-1] == log
    assert bucket.calls[-1] == ("size", log)
    bucket.calls.clear()
    storage.delete_log_segment_data(segment.metadata)
    assert bucket.calls == [("delete", key) for key in (log, *index_paths(segment.metadata))]


@pytest.mark.parametrize(
    "refused", [".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".leader_epoch_checkpoint"]
)
def test_a_copy_that_fails_takes_back_what_it_stored(
    storage: ObjectStoreStorage, bucket: _ScriptedBucket, segment: LocalSegment, refused: str
) -> None:
    bucket.refuse = refused
    with pytest.raises(RemoteBackendError, match=f"put .*{refused} refused"):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    bucket.refuse = ""
    if refused != ".log":  # whose deletion was refused too
        assert [found.key for found in bucket.list() if found.key.endswith(refused)] == []
    storage.delete_log_segment_data(segment.metadata)
    assert list(bucket.list()) == []


def test_a_log_that_arrived_with_another_size_is_taken_back(
    storage: ObjectStoreStorage, bucket: _ScriptedBucket, segment: LocalSegment
) -> None:
    bucket.size_offset = -1
    with pytest.raises(RemoteBackendError, match="has 3999 bytes, but 4000 were written"):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    assert list(bucket.list()) == []


def test_a_local_file_that_is_gone_is_an_error_of_the_system(
    storage: ObjectStoreStorage, bucket: _ScriptedBucket, segment: LocalSegment, fs: MemoryFileSystem
) -> None:
    fs.unlink(segment.data.offset_index)
    with pytest.raises(FileNotFoundError):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    assert list(bucket.list()) == []


def test_a_segment_comes_back_as_it_was(storage: ObjectStoreStorage, segment: LocalSegment) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert stored_contents(storage, segment) == segment.contents


def test_an_empty_range_asks_only_whether_the_segment_is_there(
    storage: ObjectStoreStorage, bucket: _ScriptedBucket, segment: LocalSegment
) -> None:
    end = len(segment.log)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(segment.metadata, end)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert storage.fetch_log_segment(segment.metadata, end) == b""


def test_a_stream_asks_for_a_piece_at_a_time(fs: MemoryFileSystem) -> None:
    segment = write_segment(fs, "/local", log=b"0123456789abcdef" * (STREAM_PIECE_BYTES // 8))
    store, bucket = memory_bucket()
    storage = open_storage(fs, bucket)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    pieces = storage.stream_log_segment(segment.metadata, 3)
    assert bytes(next(pieces)) == segment.log[3 : 3 + STREAM_PIECE_BYTES]
    obstore.delete(store, object_path(segment.metadata))
    with pytest.raises(SegmentNotFoundError):
        next(pieces)
    storage.close()


def test_a_range_that_cannot_exist_is_refused_at_once(storage: ObjectStoreStorage, segment: LocalSegment) -> None:
    with pytest.raises(InvalidRangeError):
        storage.fetch_log_segment(segment.metadata, len(segment.log) + 1)
    with pytest.raises(InvalidRangeError):
        storage.stream_log_segment(segment.metadata, 5, 4)


def test_what_is_not_there_is_not_found(storage: ObjectStoreStorage, segment: LocalSegment) -> None:
    with pytest.raises(SegmentNotFoundError, match="log of segment"):
        storage.fetch_log_segment(segment.metadata, 0)
    with pytest.raises(SegmentNotFoundError, match="OFFSET index"):
        storage.fetch_index(segment.metadata, IndexType.OFFSET)


def test_the_listing_goes_by_the_beginning_of_directories(storage: ObjectStoreStorage, segment: LocalSegment) -> None:
    storage.copy_log_segment_data(segment.metadata, segment.data)
    everything = list(storage.list_objects())
    assert len(everything) == len(segment.contents)
    assert sorted(storage.list_objects("orders.eu-1-7")) == sorted(everything)
    assert list(storage.list_objects("orders.eu-1-8")) == []


def test_use_before_configuration_is_a_bug(segment: LocalSegment) -> None:
    storage = ObjectStoreStorage(lambda *_: memory_bucket()[1], MemoryFileSystem())
    with pytest.raises(InvariantError):
        storage.fetch_log_segment(segment.metadata, 0)
    storage.close()
