"""The tier in memory; what every storage does is tested in tests/contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.segments import IndexType
from crabka.testing import InmemoryRemoteStorage, MemoryFileSystem
from crabka.testing.remote_samples import sample_segment, write_sample_files


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs("/log")
    return fs


def test_it_says_what_it_holds_in_the_order_in_which_it_came(fs: MemoryFileSystem) -> None:
    storage = InmemoryRemoteStorage(fs)
    data = write_sample_files(fs, "/log", b"batches")
    segments = [sample_segment(number, (0, 9), size_bytes=7) for number in (5, 3, 4)]
    for segment in segments:
        assert storage.copy_log_segment_data(segment, data) is None
    storage.delete_log_segment_data(segments[1])
    assert storage.segment_ids() == [segments[0].segment_id, segments[2].segment_id]


def test_it_outlives_a_crash_of_the_disk_that_was_copied_from(fs: MemoryFileSystem) -> None:
    storage = InmemoryRemoteStorage(fs)
    segment = sample_segment(1, (0, 9), size_bytes=7)
    storage.copy_log_segment_data(segment, write_sample_files(fs, "/log", b"batches"))
    fs.crash()
    assert storage.fetch_log_segment(segment, 0) == b"batches"


def test_custom_metadata_that_are_wanted_must_be_shown_to_fetch_but_not_to_delete(fs: MemoryFileSystem) -> None:
    storage = InmemoryRemoteStorage(fs, wants_custom_metadata=True)
    segment = sample_segment(1, (0, 9), size_bytes=7)
    custom = storage.copy_log_segment_data(segment, write_sample_files(fs, "/log", b"batches"))
    assert custom is not None
    kept = replace(segment, custom_metadata=custom)
    assert storage.fetch_log_segment(kept, 0) == b"batches"
    for fetch in (
        lambda: storage.fetch_log_segment(segment, 0),
        lambda: storage.stream_log_segment(segment, 0),
        lambda: storage.fetch_index(segment, IndexType.OFFSET),
    ):
        with pytest.raises(RemoteBackendError, match="without its custom metadata") as refused:
            fetch()
        assert not refused.value.retriable
    storage.delete_log_segment_data(segment)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(kept, 0)
