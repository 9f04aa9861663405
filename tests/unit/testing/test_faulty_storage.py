"""Faults take effect at the operation and the step that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crabka.ports import Buffer
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import IndexType, LogSegmentData, RemoteLogSegmentMetadata
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.testing import FaultyStorageManager, InmemoryRemoteStorage, MemoryFileSystem, StorageFault
from crabka.testing.faulty_storage import STORAGE_OPERATIONS
from crabka.testing.remote_samples import sample_segment, write_sample_files

CONTENT = bytes(range(250)) * 1_000
SEGMENT = sample_segment(1, (0, 9), size_bytes=len(CONTENT))
OTHER_SEGMENT = sample_segment(2, (10, 19), size_bytes=len(CONTENT))
FAILURE = RemoteBackendError("the tier is down")


@pytest.fixture
def data() -> LogSegmentData:
    return write_sample_files(DISK, "/log", CONTENT)


DISK = MemoryFileSystem()
DISK.makedirs("/log")
CALLS: dict[str, Callable[[RemoteStorageManager, RemoteLogSegmentMetadata, LogSegmentData], Any]] = {
    "copy_log_segment_data": lambda storage, metadata, data: storage.copy_log_segment_data(metadata, data),
    "fetch_log_segment": lambda storage, metadata, _data: storage.fetch_log_segment(metadata, 0),
    "stream_log_segment": lambda storage, metadata, _data: b"".join(storage.stream_log_segment(metadata, 0)),
    "fetch_index": lambda storage, metadata, _data: storage.fetch_index(metadata, IndexType.OFFSET),
    "delete_log_segment_data": lambda storage, metadata, _data: storage.delete_log_segment_data(metadata),
}


def faulty(*faults: StorageFault) -> tuple[FaultyStorageManager, InmemoryRemoteStorage]:
    inner = InmemoryRemoteStorage(DISK)
    return FaultyStorageManager(inner, faults), inner


def drain(stream: Iterator[Buffer], received: bytearray) -> None:
    for piece in stream:
        received += piece


def test_every_operation_can_fail() -> None:
    assert set(CALLS) == set(STORAGE_OPERATIONS)


@pytest.mark.parametrize("operation", CALLS)
def test_an_operation_fails_before_it_has_an_effect(operation: str, data: LogSegmentData) -> None:
    storage, inner = faulty()
    if operation != "copy_log_segment_data":
        inner.copy_log_segment_data(SEGMENT, data)
    before = inner.segment_ids()
    storage.add(StorageFault(operation=operation, error=FAILURE))
    with pytest.raises(RemoteBackendError, match="the tier is down"):
        CALLS[operation](storage, SEGMENT, data)
    assert inner.segment_ids() == before


@pytest.mark.parametrize(("operation", "left"), [("copy_log_segment_data", True), ("delete_log_segment_data", False)])
def test_an_operation_fails_although_it_has_had_its_effect(operation: str, left: bool, data: LogSegmentData) -> None:
    storage, inner = faulty(StorageFault(operation=operation, error_after=FAILURE))
    if operation == "delete_log_segment_data":
        inner.copy_log_segment_data(SEGMENT, data)
    with pytest.raises(RemoteBackendError, match="the tier is down"):
        CALLS[operation](storage, SEGMENT, data)
    assert (inner.segment_ids() == [SEGMENT.segment_id]) is left


def test_a_fault_is_skipped_fires_so_often_and_only_for_the_segments_that_it_wants(data: LogSegmentData) -> None:
    fault = StorageFault(error=FAILURE, skip=1, times=2, wants=lambda metadata: metadata == SEGMENT)
    storage, _inner = faulty(fault)
    failed = []
    for attempt in range(5):
        for segment in (SEGMENT, OTHER_SEGMENT):
            try:
                storage.copy_log_segment_data(segment, data)
            except RemoteBackendError:
                failed.append((attempt, segment))
    assert failed == [(1, SEGMENT), (2, SEGMENT)]
    assert (fault.matched_count, fault.fired_count) == (5, 2)
    assert len(storage.calls) == 10
    assert storage.calls[-1] == ("copy_log_segment_data", OTHER_SEGMENT.segment_id)


def test_callbacks_run_before_and_after_the_effect(data: LogSegmentData) -> None:
    inner = InmemoryRemoteStorage(DISK)
    seen: list[tuple[str, bool]] = []

    def note(operation: str, metadata: RemoteLogSegmentMetadata) -> None:
        seen.append((operation, metadata.segment_id in inner.segment_ids()))

    storage = FaultyStorageManager(inner, [StorageFault(before=note, after=note)])
    for call in CALLS.values():
        call(storage, SEGMENT, data)
    assert [operation for operation, _there in seen] == [name for name in STORAGE_OPERATIONS for _ in range(2)]
    assert [there for _operation, there in seen] == [False, *[True] * 8, False]


def test_results_are_cut(data: LogSegmentData) -> None:
    storage, _inner = faulty(StorageFault(keep_bytes=3))
    storage.copy_log_segment_data(SEGMENT, data)
    assert storage.fetch_log_segment(SEGMENT, 0) == CONTENT[:3]
    assert storage.fetch_index(SEGMENT, IndexType.LEADER_EPOCH) == data.leader_epoch_index[:3]


@pytest.mark.parametrize("keep_bytes", [0, 1, 70_000, len(CONTENT), len(CONTENT) + 1])
def test_a_stream_is_cut_or_breaks_in_the_middle(keep_bytes: int, data: LogSegmentData) -> None:
    storage, inner = faulty()
    inner.copy_log_segment_data(SEGMENT, data)
    cut = storage.add(StorageFault(keep_bytes=keep_bytes))
    assert b"".join(storage.stream_log_segment(SEGMENT, 0)) == CONTENT[:keep_bytes]
    storage.remove(cut)
    storage.add(StorageFault(keep_bytes=keep_bytes, error_after=FAILURE))
    received = bytearray()
    with pytest.raises(RemoteBackendError, match="the tier is down"):
        drain(storage.stream_log_segment(SEGMENT, 0), received)
    assert received == CONTENT[:keep_bytes]


def test_a_stream_that_is_closed_closes_the_one_behind_it() -> None:
    class Pieces:
        closed = False

        def close(self) -> None:
            self.closed = True

    pieces = Pieces()

    class Inner(InmemoryRemoteStorage):
        def stream_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Any:
            return pieces

    stream: Any = FaultyStorageManager(Inner(DISK)).stream_log_segment(SEGMENT, 0)
    stream.close()
    assert pieces.closed


def test_a_partial_copy_cannot_be_fetched_and_goes_with_its_deletion(data: LogSegmentData) -> None:
    storage, inner = faulty(StorageFault(partial=True, times=1))
    with pytest.raises(RemoteBackendError, match="cut off"):
        storage.copy_log_segment_data(SEGMENT, data)
    assert inner.segment_ids() == [SEGMENT.segment_id]
    for operation in ("fetch_log_segment", "stream_log_segment", "fetch_index"):
        with pytest.raises(SegmentNotFoundError):
            CALLS[operation](storage, SEGMENT, data)
    storage.delete_log_segment_data(SEGMENT)
    assert inner.segment_ids() == []
    storage.copy_log_segment_data(SEGMENT, data)
    assert storage.fetch_log_segment(SEGMENT, 0) == CONTENT


def test_a_partial_copy_fails_as_the_rule_says(data: LogSegmentData) -> None:
    storage, _inner = faulty(StorageFault(partial=True, error_after=TimeoutError("killed")))
    with pytest.raises(TimeoutError, match="killed"):
        storage.copy_log_segment_data(SEGMENT, data)


def test_a_source_that_is_lost_fails_the_copy_inside_the_storage(data: LogSegmentData) -> None:
    storage, inner = faulty(StorageFault(lost_source="time_index", times=1))
    with pytest.raises(FileNotFoundError):
        storage.copy_log_segment_data(SEGMENT, data)
    assert inner.segment_ids() == []


@pytest.mark.parametrize(("arguments", "message"), [({}, "needs an effect"), ({"operation": "fetch"}, "no operation")])
def test_a_fault_that_can_do_nothing_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StorageFault(**arguments)


def test_settings_and_close_go_to_the_inner_storage() -> None:
    reported: list[object] = []

    class Inner(InmemoryRemoteStorage):
        def configure(self, settings: object) -> None:
            reported.append(settings)

        def close(self) -> None:
            reported.append("closed")

    storage = FaultyStorageManager(Inner(DISK))
    storage.configure({"bucket": "b"})
    storage.close()
    assert reported == [{"bucket": "b"}, "closed"]
