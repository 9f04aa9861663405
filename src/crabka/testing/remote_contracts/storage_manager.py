"""The contract of RemoteStorageManager (KIP-405)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from crabka.remote.errors import InvalidRangeError, RemoteStorageError, SegmentNotFoundError
from crabka.remote.segments import (
    IndexType,
    LogSegmentData,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.testing.remote_samples import SAMPLE_PARTITION, in_state, sample_segment, write_sample_files
from crabka.vfs import OsFileSystem, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from crabka.ports import Buffer, FileSystem
    from crabka.remote.storage_manager import RemoteStorageManager

_CONTENT = bytes(range(256)) * 40
_FILE_FIELDS = ("log_segment", "offset_index", "time_index", "producer_snapshot_index", "transaction_index")


class LocalSegmentFiles:
    """Writes local segments, each into a directory of its own."""

    def __init__(self, fs: FileSystem, root: str) -> None:
        self.fs = fs
        self._root = root
        self._count = 0

    def write(self, log: bytes, *, with_txn_index: bool = False) -> LogSegmentData:
        """Write the files of a segment."""
        self._count += 1
        directory = f"{self._root}/segment-{self._count}"
        self.fs.makedirs(directory)
        return write_sample_files(self.fs, directory, log, with_txn_index=with_txn_index)

    def expected(self, data: LogSegmentData) -> dict[IndexType, bytes]:
        """Return the contents of the indexes of a segment."""
        paths = {
            IndexType.OFFSET: data.offset_index,
            IndexType.TIMESTAMP: data.time_index,
            IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot_index,
        }
        if data.transaction_index is not None:
            paths[IndexType.TRANSACTION] = data.transaction_index
        read = {index_type: read_file(self.fs, path) for index_type, path in paths.items()}
        return {**read, IndexType.LEADER_EPOCH: data.leader_epoch_index}


class StorageManagerContract:
    """Tests of a storage. A subclass has the fixture `storage`: an empty one, configured.

    It may have `files` too, if its storage does not read local files through the operating system.
    """

    large_segment_bytes = 3 * 1024 * 1024 + 17
    """Enough that a stream has several pieces."""

    @pytest.fixture
    def storage(self) -> RemoteStorageManager:
        """An empty storage."""
        raise NotImplementedError

    @pytest.fixture
    def files(self, tmp_path: Path) -> LocalSegmentFiles:
        """The directory of the local segments."""
        return LocalSegmentFiles(OsFileSystem(), str(tmp_path / "local"))

    def test_what_was_copied_can_be_fetched(self, storage: RemoteStorageManager, files: LocalSegmentFiles) -> None:
        data = files.write(_CONTENT, with_txn_index=True)
        metadata = stored(storage, segment_of(1, _CONTENT, with_txn_index=True), data)
        require_same(storage.fetch_log_segment(metadata, 0), _CONTENT)
        assert all_indexes(storage, metadata) == files.expected(data)

    def test_a_segment_without_aborted_transactions_has_no_transaction_index(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        data = files.write(_CONTENT)
        metadata = stored(storage, segment_of(1, _CONTENT), data)
        with pytest.raises(SegmentNotFoundError):
            storage.fetch_index(metadata, IndexType.TRANSACTION)
        assert all_indexes(storage, metadata) == files.expected(data)

    def test_an_empty_index_is_there_and_empty(self, storage: RemoteStorageManager, files: LocalSegmentFiles) -> None:
        data = files.write(_CONTENT)
        file = files.fs.open(data.offset_index)
        file.truncate(0)
        file.close()
        metadata = stored(storage, segment_of(1, _CONTENT), data)
        assert storage.fetch_index(metadata, IndexType.OFFSET) == b""

    def test_a_range_includes_both_its_ends_and_is_cut_at_the_end_of_the_segment(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        metadata = stored(storage, segment_of(1, _CONTENT), files.write(_CONTENT))
        size = len(_CONTENT)
        ranges = [(0, 0), (0, None), (1, 9), (300, 300), (size - 1, size - 1), (size - 2, None), (5, size + 100)]
        for start, end in ranges:
            expected = _CONTENT[start:] if end is None else _CONTENT[start : end + 1]
            require_same(storage.fetch_log_segment(metadata, start, end), expected)
            require_same(streamed(storage, metadata, start, end), expected)

    def test_nothing_is_left_at_the_end_of_a_segment(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        metadata = stored(storage, segment_of(1, _CONTENT), files.write(_CONTENT))
        size = len(_CONTENT)
        for end in (None, size, size + 100):
            require_same(storage.fetch_log_segment(metadata, size, end), b"")
            require_same(streamed(storage, metadata, size, end), b"")

    def test_a_range_that_cannot_exist_is_refused(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        metadata = stored(storage, segment_of(1, _CONTENT), files.write(_CONTENT))
        size = len(_CONTENT)
        ranges: list[tuple[int, int | None]] = [(size + 1, None), (size + 1, size + 5), (5, 4), (-1, None), (-3, 4)]
        for start, end in ranges:
            with pytest.raises(InvalidRangeError):
                storage.fetch_log_segment(metadata, start, end)
            with pytest.raises(InvalidRangeError):
                streamed(storage, metadata, start, end)

    def test_a_large_segment_is_streamed_in_pieces(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        content = (_CONTENT * (self.large_segment_bytes // len(_CONTENT) + 1))[: self.large_segment_bytes]
        metadata = stored(storage, segment_of(1, content), files.write(content))
        pieces = [bytes(piece) for piece in storage.stream_log_segment(metadata, 0)]
        require_same(b"".join(pieces), content)
        assert len(pieces) > 1
        require_same(streamed(storage, metadata, 1_000, len(content) - 1_000), content[1_000:-999])

    def test_a_stream_may_be_closed_before_its_end(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        content = _CONTENT * (self.large_segment_bytes // len(_CONTENT) + 1)
        metadata = stored(storage, segment_of(1, content), files.write(content))
        unread: Any = storage.stream_log_segment(metadata, 0)
        unread.close()
        begun: Any = storage.stream_log_segment(metadata, 0)
        piece = bytes(next(begun))
        require_same(piece, content[: len(piece)])
        begun.close()
        storage.delete_log_segment_data(metadata)

    def test_a_segment_that_was_never_copied_is_not_found(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        stored(storage, segment_of(1, _CONTENT), files.write(_CONTENT))
        require_absent(storage, segment_of(2, _CONTENT))

    def test_a_deleted_segment_is_gone_with_all_that_belongs_to_it(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        data = files.write(_CONTENT, with_txn_index=True)
        metadata = stored(storage, segment_of(1, _CONTENT, with_txn_index=True), data)
        storage.delete_log_segment_data(in_state(metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED))
        require_absent(storage, metadata)

    def test_deleting_again_or_what_never_was_is_fine(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        metadata = stored(storage, segment_of(1, _CONTENT), files.write(_CONTENT))
        for _ in range(2):
            storage.delete_log_segment_data(metadata)
        storage.delete_log_segment_data(segment_of(2, _CONTENT))

    def test_a_copy_whose_end_nobody_heard_of_can_be_deleted(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        metadata = stored(storage, segment_of(1, _CONTENT), files.write(_CONTENT))
        storage.delete_log_segment_data(segment_of(1, _CONTENT))
        require_absent(storage, metadata)

    def test_segments_do_not_touch_each_other(self, storage: RemoteStorageManager, files: LocalSegmentFiles) -> None:
        same_name = TopicIdPartition(uuid.UUID(int=77), SAMPLE_PARTITION.topic, SAMPLE_PARTITION.partition)
        next_partition = TopicIdPartition(SAMPLE_PARTITION.topic_id, SAMPLE_PARTITION.topic, 4)
        odd_name = TopicIdPartition(uuid.UUID(int=(1 << 128) - 1), "A.b_c-1", 12)
        partitions = [SAMPLE_PARTITION, SAMPLE_PARTITION, same_name, next_partition, odd_name]
        contents = [_CONTENT[number:] for number in range(len(partitions))]
        segments = [
            stored(storage, segment_of(number, content, partition=partition), files.write(content))
            for number, (partition, content) in enumerate(zip(partitions, contents, strict=True))
        ]
        for number, metadata in enumerate(segments):
            for other, content in list(zip(segments, contents, strict=True))[number:]:
                require_same(storage.fetch_log_segment(other, 0), content)
                assert storage.fetch_index(other, IndexType.OFFSET) == b"offsets"
            storage.delete_log_segment_data(metadata)
            require_absent(storage, metadata)

    def test_a_copy_that_fails_leaves_nothing_to_fetch_and_can_be_repeated(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        data = files.write(_CONTENT, with_txn_index=True)
        segment = segment_of(1, _CONTENT, with_txn_index=True)
        for name in _FILE_FIELDS:
            lost: dict[str, Any] = {name: f"{data.log_segment}.lost"}
            with pytest.raises((OSError, RemoteStorageError)):
                storage.copy_log_segment_data(segment, replace(data, **lost))
            require_absent(storage, segment)
            storage.delete_log_segment_data(segment)
        metadata = stored(storage, segment, data)
        require_same(storage.fetch_log_segment(metadata, 0), _CONTENT)
        assert all_indexes(storage, metadata) == files.expected(data)

    def test_a_copy_that_is_repeated_is_as_good_as_one(
        self, storage: RemoteStorageManager, files: LocalSegmentFiles
    ) -> None:
        data = files.write(_CONTENT)
        segment = segment_of(1, _CONTENT)
        stored(storage, segment, data)
        metadata = stored(storage, segment, data)
        require_same(storage.fetch_log_segment(metadata, 0), _CONTENT)
        assert all_indexes(storage, metadata) == files.expected(data)

    def test_the_local_files_are_left_alone(self, storage: RemoteStorageManager, files: LocalSegmentFiles) -> None:
        data = files.write(_CONTENT, with_txn_index=True)
        before = files.expected(data)
        metadata = stored(storage, segment_of(1, _CONTENT, with_txn_index=True), data)
        storage.delete_log_segment_data(metadata)
        assert files.expected(data) == before
        require_same(read_file(files.fs, data.log_segment), _CONTENT)

    def test_several_threads_may_use_it_at_once(self, storage: RemoteStorageManager, files: LocalSegmentFiles) -> None:
        contents = [_CONTENT[number:] for number in range(16)]
        sources = [files.write(content) for content in contents]

        def live(number: int) -> bool:
            metadata = stored(storage, segment_of(number, contents[number]), sources[number])
            same = bytes(storage.fetch_log_segment(metadata, 0)) == contents[number]
            storage.delete_log_segment_data(metadata)
            require_absent(storage, metadata)
            return same

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(live, range(len(contents))))


def segment_of(
    number: int, content: bytes, *, partition: TopicIdPartition = SAMPLE_PARTITION, with_txn_index: bool = False
) -> RemoteLogSegmentMetadata:
    """Return the metadata of a segment of that size whose copy begins."""
    return sample_segment(
        number, (1_000, 1_999), partition=partition, size_bytes=len(content), with_txn_index=with_txn_index
    )


def stored(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, data: LogSegmentData
) -> RemoteLogSegmentMetadata:
    """Copy a segment and return its metadata as the broker has it afterwards."""
    custom = storage.copy_log_segment_data(segment, data)
    return replace(in_state(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED), custom_metadata=custom)


def streamed(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, start: int, end: int | None) -> bytes:
    """Return all pieces of a stream together."""
    return b"".join(storage.stream_log_segment(metadata, start, end))


def all_indexes(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> dict[IndexType, bytes]:
    """Return the indexes that a segment has."""
    kinds = [kind for kind in IndexType if kind is not IndexType.TRANSACTION or not metadata.txn_index_empty]
    return {kind: storage.fetch_index(metadata, kind) for kind in kinds}


def require_same(found: Buffer, expected: bytes) -> None:
    """Check that what was fetched is what was stored; a plain assert would compare long ones for minutes."""
    fetched = bytes(found)
    if fetched != expected:
        pairs = enumerate(zip(fetched, expected, strict=False))
        position = next((index for index, (one, other) in pairs if one != other), min(len(fetched), len(expected)))
        raise AssertionError(f"{len(fetched)} bytes, other ones from {position} on than the {len(expected)} stored")


def require_absent(storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> None:
    """Check that nothing of a segment can be fetched."""
    fetches: list[Callable[[], object]] = [
        partial(storage.fetch_log_segment, metadata, 0),
        partial(streamed, storage, metadata, 0, None),
        *(partial(storage.fetch_index, metadata, kind) for kind in IndexType),
    ]
    for fetch in fetches:
        with pytest.raises(SegmentNotFoundError):
            fetch()
