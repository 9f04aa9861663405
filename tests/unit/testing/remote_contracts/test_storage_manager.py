"""The suite for storages notices each way in which one can be wrong."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from crabka.ports import Buffer
from crabka.remote.errors import InvalidRangeError, RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import (
    CustomMetadata,
    IndexType,
    LogSegmentData,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from crabka.testing import InmemoryRemoteStorage, MemoryFileSystem
from crabka.testing.remote_contracts import LocalSegmentFiles, StorageManagerContract
from tests.support.contracts import broken_promises, promises_of

Metadata = RemoteLogSegmentMetadata


class ExclusiveEnd(InmemoryRemoteStorage):
    def fetch_log_segment(self, metadata: Metadata, start: int, end: int | None = None) -> Buffer:
        fetched = super().fetch_log_segment(metadata, start, end)
        return fetched if end is None else fetched[: end - start]


class RefusesLongRanges(InmemoryRemoteStorage):
    def fetch_log_segment(self, metadata: Metadata, start: int, end: int | None = None) -> Buffer:
        if end is not None and end >= metadata.segment_size_bytes:
            raise InvalidRangeError("too far")
        return super().fetch_log_segment(metadata, start, end)


class EmptyBehindTheEnd(InmemoryRemoteStorage):
    def fetch_log_segment(self, metadata: Metadata, start: int, end: int | None = None) -> Buffer:
        return super().fetch_log_segment(metadata, min(start, metadata.segment_size_bytes), end)


class StreamsAllAtOnce(InmemoryRemoteStorage):
    def stream_log_segment(self, metadata: Metadata, start: int, end: int | None = None) -> Iterator[Buffer]:
        content = self.fetch_log_segment(metadata, start, end)
        return (piece for piece in [content] if piece)


class StreamCannotBeClosed(InmemoryRemoteStorage):
    def stream_log_segment(self, metadata: Metadata, start: int, end: int | None = None) -> Iterator[Buffer]:
        return iter(list(super().stream_log_segment(metadata, start, end)))


class EmptyForMissingIndex(InmemoryRemoteStorage):
    def fetch_index(self, metadata: Metadata, index_type: IndexType) -> bytes:
        with contextlib.suppress(SegmentNotFoundError):
            return super().fetch_index(metadata, index_type)
        return b""


class MissingForEmptyIndex(InmemoryRemoteStorage):
    def fetch_index(self, metadata: Metadata, index_type: IndexType) -> bytes:
        if fetched := super().fetch_index(metadata, index_type):
            return fetched
        raise SegmentNotFoundError(metadata.segment_id)


class DeletesOnlyOnce(InmemoryRemoteStorage):
    def delete_log_segment_data(self, metadata: Metadata) -> None:
        if metadata.segment_id not in self.segment_ids():
            raise RemoteBackendError("it is not there")
        super().delete_log_segment_data(metadata)


class DeletesNothing(InmemoryRemoteStorage):
    def delete_log_segment_data(self, metadata: Metadata) -> None: ...


class CopiesOnlyOnce(InmemoryRemoteStorage):
    def copy_log_segment_data(self, metadata: Metadata, data: LogSegmentData) -> CustomMetadata | None:
        if metadata.segment_id in self.segment_ids():
            raise RemoteBackendError("it is there")
        return super().copy_log_segment_data(metadata, data)


class ShowsHalfCopies(InmemoryRemoteStorage):
    def copy_log_segment_data(self, metadata: Metadata, data: LogSegmentData) -> CustomMetadata | None:
        alone = data.log_segment
        with contextlib.suppress(OSError):
            super().copy_log_segment_data(
                metadata, replace(data, offset_index=alone, time_index=alone, producer_snapshot_index=alone)
            )
        return super().copy_log_segment_data(metadata, data)


class MovesTheFiles(InmemoryRemoteStorage):
    def copy_log_segment_data(self, metadata: Metadata, data: LogSegmentData) -> CustomMetadata | None:
        custom = super().copy_log_segment_data(metadata, data)
        self._fs.unlink(data.log_segment)
        return custom


class _KnownAs(InmemoryRemoteStorage):
    """Knows segments by something else than their id."""

    def alias(self, metadata: Metadata) -> RemoteLogSegmentId:
        raise NotImplementedError

    def _as(self, metadata: Metadata) -> Metadata:
        return replace(metadata, segment_id=self.alias(metadata))

    def copy_log_segment_data(self, metadata: Metadata, data: LogSegmentData) -> CustomMetadata | None:
        return super().copy_log_segment_data(self._as(metadata), data)

    def fetch_log_segment(self, metadata: Metadata, start: int, end: int | None = None) -> Buffer:
        return super().fetch_log_segment(self._as(metadata), start, end)

    def fetch_index(self, metadata: Metadata, index_type: IndexType) -> bytes:
        return super().fetch_index(self._as(metadata), index_type)

    def delete_log_segment_data(self, metadata: Metadata) -> None:
        super().delete_log_segment_data(self._as(metadata))


class KnownByOffset(_KnownAs):
    def alias(self, metadata: Metadata) -> RemoteLogSegmentId:
        return RemoteLogSegmentId(metadata.topic_id_partition, NUMBERED_ID)


class KnownByName(_KnownAs):
    """The names of the objects lack the id of the segment's topic, and of the segment they have a part only."""

    def alias(self, metadata: Metadata) -> RemoteLogSegmentId:
        partition = metadata.topic_id_partition
        return RemoteLogSegmentId(TopicIdPartition(NUMBERED_ID, partition.topic, partition.partition), NUMBERED_ID)


NUMBERED_ID = uuid.UUID(int=0)
BROKEN: dict[type[InmemoryRemoteStorage], str] = {
    ExclusiveEnd: "test_a_range_includes_both_its_ends_and_is_cut_at_the_end_of_the_segment",
    RefusesLongRanges: "test_nothing_is_left_at_the_end_of_a_segment",
    EmptyBehindTheEnd: "test_a_range_that_cannot_exist_is_refused",
    StreamsAllAtOnce: "test_a_large_segment_is_streamed_in_pieces",
    StreamCannotBeClosed: "test_a_stream_may_be_closed_before_its_end",
    EmptyForMissingIndex: "test_a_segment_without_aborted_transactions_has_no_transaction_index",
    MissingForEmptyIndex: "test_an_empty_index_is_there_and_empty",
    DeletesOnlyOnce: "test_deleting_again_or_what_never_was_is_fine",
    DeletesNothing: "test_a_deleted_segment_is_gone_with_all_that_belongs_to_it",
    CopiesOnlyOnce: "test_a_copy_that_is_repeated_is_as_good_as_one",
    ShowsHalfCopies: "test_a_copy_that_fails_leaves_nothing_to_fetch_and_can_be_repeated",
    MovesTheFiles: "test_the_local_files_are_left_alone",
    KnownByOffset: "test_segments_do_not_touch_each_other",
    KnownByName: "test_a_segment_that_was_never_copied_is_not_found",
}


class SmallStorageContract(StorageManagerContract):
    large_segment_bytes = 150_000


def broken_by(storage: type[InmemoryRemoteStorage]) -> set[str]:
    def fixtures() -> dict[str, Any]:
        fs = MemoryFileSystem()
        return {"storage": storage(fs), "files": LocalSegmentFiles(fs, "/local")}

    return broken_promises(SmallStorageContract, fixtures)


def test_a_storage_that_is_right_passes() -> None:
    assert broken_by(InmemoryRemoteStorage) == set()
    assert len(promises_of(StorageManagerContract)) > 10


@pytest.mark.parametrize("storage", BROKEN, ids=lambda storage: storage.__name__)
def test_a_storage_that_is_wrong_is_noticed(storage: type[InmemoryRemoteStorage]) -> None:
    assert BROKEN[storage] in broken_by(storage)


def test_the_files_of_a_segment_are_in_a_directory_of_their_own_and_say_what_is_expected() -> None:
    fs = MemoryFileSystem()
    files = LocalSegmentFiles(fs, "/local")
    first, second = files.write(b"a"), files.write(b"b", with_txn_index=True)
    assert first.log_segment != second.log_segment
    assert set(files.expected(first)) == set(IndexType) - {IndexType.TRANSACTION}
    assert files.expected(second)[IndexType.TRANSACTION] == b"aborted transactions"
