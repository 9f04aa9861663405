"""Sample metadata says what its arguments say."""

from __future__ import annotations

import uuid
from dataclasses import asdict

from crabka.remote.segments import RemoteLogSegmentState, RemotePartitionDeleteState
from crabka.testing import MemoryFileSystem
from crabka.testing.remote_samples import (
    SAMPLE_PARTITION,
    in_state,
    sample_partition_delete,
    sample_segment,
    sample_update,
    write_sample_files,
)
from crabka.vfs import read_file


def test_a_sample_segment_is_about_to_be_copied_and_has_epoch_0_unless_others_are_given() -> None:
    segment = sample_segment(7, (10, 19), size_bytes=5)
    assert segment.segment_id.id == uuid.UUID(int=7)
    assert segment.topic_id_partition == SAMPLE_PARTITION
    assert (segment.start_offset, segment.end_offset, segment.segment_size_bytes) == (10, 19, 5)
    assert segment.leader_epochs == ((0, 10),)
    assert segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    assert segment.txn_index_empty
    other = sample_segment(8, (10, 19), {1: 10, 4: 15}, with_txn_index=True)
    assert other.leader_epochs == ((1, 10), (4, 15))
    assert not other.txn_index_empty


def test_a_segment_in_a_state_is_what_its_update_makes_of_it() -> None:
    segment = sample_segment(7, (10, 19))
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    assert in_state(segment, finished) == segment.with_update(sample_update(segment, finished))
    assert in_state(segment, RemoteLogSegmentState.COPY_SEGMENT_STARTED) == segment


def test_a_step_of_a_deletion_names_partition_and_state() -> None:
    step = sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
    assert step.topic_id_partition == SAMPLE_PARTITION
    assert step.state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED


def test_the_files_of_a_segment_are_there_and_differ() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/log")
    data = write_sample_files(fs, "/log", b"batches", with_txn_index=True)
    contents = [read_file(fs, path) for path in asdict(data).values() if isinstance(path, str)]
    assert contents[0] == b"batches"
    assert len({*contents, data.leader_epoch_index}) == 6
    assert write_sample_files(fs, "/log", b"").transaction_index is None
    assert read_file(fs, data.log_segment) == b""
