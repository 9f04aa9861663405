"""The manager that keeps metadata in memory only; what every manager does is tested in tests/contract."""

from __future__ import annotations

import uuid
from threading import Barrier, Thread

import pytest

from crabka.remote.errors import InvalidAddError, InvalidPartitionDeleteTransitionError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager, PartitionDump, RlmmCacheDump
from crabka.remote.segments import RemoteLogSegmentState, RemotePartitionDeleteState, TopicIdPartition
from crabka.testing.remote_samples import (
    SAMPLE_PARTITION,
    in_state,
    sample_partition_delete,
    sample_segment,
    sample_update,
)

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
OTHER_PARTITION = TopicIdPartition(uuid.UUID(int=1), "other", 0)


@pytest.fixture
def rlmm() -> InmemoryRemoteLogMetadataManager:
    return InmemoryRemoteLogMetadataManager()


def test_a_dump_that_is_loaded_elsewhere_gives_the_same_answers(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    segments = [sample_segment(number, (number * 10, number * 10 + 9)) for number in range(5)]
    for segment in segments:
        rlmm.add_remote_log_segment_metadata(segment)
    for segment in segments[:4]:
        rlmm.update_remote_log_segment_metadata(sample_update(segment, FINISHED))
    for state in (DELETING, DELETED):
        rlmm.update_remote_log_segment_metadata(sample_update(segments[3], state))
    rlmm.update_remote_log_segment_metadata(sample_update(segments[0], DELETING))
    marked = sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, partition=OTHER_PARTITION)
    rlmm.put_remote_partition_delete_metadata(marked)

    dump = rlmm.dump()
    copy = InmemoryRemoteLogMetadataManager()
    copy.load(dump)
    assert copy.dump() == dump
    assert copy.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 15) == in_state(segments[1], FINISHED)
    assert copy.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 5) is None
    assert copy.highest_offset_for_epoch(SAMPLE_PARTITION, 0) == 39
    assert copy.partition_delete_metadata(OTHER_PARTITION) == marked
    assert copy.partitions() == [SAMPLE_PARTITION, OTHER_PARTITION]


def test_a_dump_of_some_partitions_has_only_these(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    rlmm.add_remote_log_segment_metadata(sample_segment(1, (0, 9)))
    other = sample_segment(2, (0, 9), partition=OTHER_PARTITION)
    rlmm.add_remote_log_segment_metadata(other)
    unknown = TopicIdPartition(uuid.UUID(int=99), "unknown", 0)
    expected = PartitionDump(topic_id_partition=OTHER_PARTITION, segments=(other,))
    assert rlmm.dump([OTHER_PARTITION, unknown]) == RlmmCacheDump((expected,))


def test_loading_replaces_the_partitions_of_the_dump_and_keeps_the_others(
    rlmm: InmemoryRemoteLogMetadataManager,
) -> None:
    rlmm.add_remote_log_segment_metadata(sample_segment(1, (0, 9)))
    rlmm.add_remote_log_segment_metadata(sample_segment(2, (0, 9), partition=OTHER_PARTITION))
    loaded = in_state(sample_segment(3, (0, 9)), DELETING)
    rlmm.load(RlmmCacheDump((PartitionDump(topic_id_partition=SAMPLE_PARTITION, segments=(loaded,)),)))
    assert list(rlmm.list_remote_log_segments(SAMPLE_PARTITION)) == [loaded]
    assert len(list(rlmm.list_remote_log_segments(OTHER_PARTITION))) == 1


def test_a_finished_deletion_of_a_partition_leaves_nothing(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    rlmm.add_remote_log_segment_metadata(sample_segment(1, (0, 9)))
    for state in RemotePartitionDeleteState:
        assert rlmm.partitions() == [SAMPLE_PARTITION]
        rlmm.put_remote_partition_delete_metadata(sample_partition_delete(state))
    assert rlmm.partitions() == []
    assert rlmm.partition_delete_metadata(SAMPLE_PARTITION) is None
    assert rlmm.dump() == RlmmCacheDump()


def test_a_refused_change_of_an_unknown_partition_leaves_it_unknown(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    with pytest.raises(InvalidAddError):
        rlmm.add_remote_log_segment_metadata(in_state(sample_segment(1, (0, 9)), FINISHED))
    with pytest.raises(InvalidPartitionDeleteTransitionError):
        rlmm.put_remote_partition_delete_metadata(
            sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
        )
    rlmm.update_remote_log_segment_metadata(sample_update(sample_segment(1, (0, 9)), DELETED))
    assert rlmm.partitions() == []


def test_a_forgotten_partition_is_as_one_never_known(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    rlmm.add_remote_log_segment_metadata(sample_segment(1, (0, 9)))
    rlmm.forget([SAMPLE_PARTITION, OTHER_PARTITION])
    assert list(rlmm.list_remote_log_segments(SAMPLE_PARTITION)) == []
    assert rlmm.partitions() == []


def test_it_is_ready_and_keeps_what_it_knows_whatever_the_replicas_do(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    rlmm.add_remote_log_segment_metadata(sample_segment(1, (0, 9)))
    rlmm.on_partition_leadership_changes([], [SAMPLE_PARTITION])
    rlmm.on_stop_partitions([SAMPLE_PARTITION])
    assert rlmm.is_ready(SAMPLE_PARTITION)
    assert len(list(rlmm.list_remote_log_segments(SAMPLE_PARTITION))) == 1


def test_a_list_does_not_change_while_it_is_read(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    rlmm.add_remote_log_segment_metadata(sample_segment(1, (0, 9)))
    listed = rlmm.list_remote_log_segments(SAMPLE_PARTITION)
    rlmm.add_remote_log_segment_metadata(sample_segment(2, (10, 19)))
    assert len(list(listed)) == 1


def test_threads_that_change_and_read_at_once_lose_nothing(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    count, per_thread = 4, 200
    barrier = Barrier(count)
    wrong: list[int] = []

    def work(thread: int) -> None:
        barrier.wait()
        for number in range(thread, count * per_thread, count):
            segment = sample_segment(number, (number * 10, number * 10 + 9))
            rlmm.add_remote_log_segment_metadata(segment)
            rlmm.update_remote_log_segment_metadata(sample_update(segment, FINISHED))
            found = rlmm.remote_log_segment_metadata(SAMPLE_PARTITION, 0, number * 10 + 5)
            if found is None or found.segment_id != segment.segment_id:
                wrong.append(number)

    threads = [Thread(target=work, args=(thread,)) for thread in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(list(rlmm.list_remote_log_segments(SAMPLE_PARTITION, 0))) == count * per_thread


def test_a_plain_step_of_an_unknown_partition_changes_nothing(rlmm: InmemoryRemoteLogMetadataManager) -> None:
    segment = sample_segment(1, (0, 9))
    step = (segment.segment_id.id.int, FINISHED, 1, 5)
    assert not rlmm.take_step(SAMPLE_PARTITION, step)
    assert rlmm.partitions() == []
    rlmm.add_remote_log_segment_metadata(segment)
    assert not rlmm.take_step(OTHER_PARTITION, step)
    assert rlmm.take_step(SAMPLE_PARTITION, step)
    assert rlmm.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 5) is not None
