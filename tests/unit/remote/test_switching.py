"""Exchanging the metadata manager of a running broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection

import pytest

from crabka.remote.errors import NotReadyError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.metadata_manager import RemoteLogMetadataManager
from crabka.remote.segments import RemoteLogSegmentState, RemotePartitionDeleteState, TopicIdPartition
from crabka.remote.switching import NotReadyRlmm, SwappableRlmm
from crabka.testing.remote_samples import SAMPLE_PARTITION, sample_partition_delete, sample_segment, sample_update

SEGMENT = sample_segment(1, (0, 9))
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
OTHER_PARTITION = TopicIdPartition(uuid.UUID(int=2), "other", 0)

CALLS: dict[str, Callable[[RemoteLogMetadataManager], object]] = {
    "add": lambda rlmm: rlmm.add_remote_log_segment_metadata(SEGMENT),
    "update": lambda rlmm: rlmm.update_remote_log_segment_metadata(sample_update(SEGMENT, FINISHED)),
    "delete": lambda rlmm: rlmm.put_remote_partition_delete_metadata(
        sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
    ),
    "find": lambda rlmm: rlmm.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 0),
    "highest": lambda rlmm: rlmm.highest_offset_for_epoch(SAMPLE_PARTITION, 0),
    "list": lambda rlmm: rlmm.list_remote_log_segments(SAMPLE_PARTITION),
    "list of epoch": lambda rlmm: rlmm.list_remote_log_segments(SAMPLE_PARTITION, 0),
    "size": lambda rlmm: rlmm.remote_log_size(SAMPLE_PARTITION, 0),
    "txn index": lambda rlmm: rlmm.next_segment_with_txn_index(SAMPLE_PARTITION, 0, 0),
}


class NoticedRlmm(InmemoryRemoteLogMetadataManager):
    """Writes down what it is told of replicas, and that it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.notices: list[tuple[str, ...]] = []

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        self.notices.append(("lead", *(name.topic for name in leaders), "follow", *(name.topic for name in followers)))

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        self.notices.append(("stop", *(name.topic for name in partitions)))

    def close(self) -> None:
        self.notices.append(("close",))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_before_the_metadata_is_there_every_call_is_to_be_tried_again(
    call: Callable[[RemoteLogMetadataManager], object],
) -> None:
    with pytest.raises(NotReadyError, match="events-3") as refused:
        call(SwappableRlmm(NotReadyRlmm()))
    assert refused.value.retriable


def test_nothing_is_ready_before_the_swap_and_notices_are_accepted() -> None:
    rlmm = NotReadyRlmm()
    rlmm.on_partition_leadership_changes([SAMPLE_PARTITION], [])
    rlmm.on_stop_partitions([SAMPLE_PARTITION])
    assert not rlmm.is_ready(SAMPLE_PARTITION)
    rlmm.close()


def test_after_the_swap_the_new_manager_answers() -> None:
    waiting, real = NotReadyRlmm(), InmemoryRemoteLogMetadataManager()
    rlmm = SwappableRlmm(waiting)
    assert not rlmm.is_ready(SAMPLE_PARTITION)
    assert rlmm.swap(real) is waiting
    assert rlmm.inner is real
    assert rlmm.is_ready(SAMPLE_PARTITION)
    for name in ("add", "update"):
        CALLS[name](rlmm)
    found = real.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 0)
    assert found is not None
    assert rlmm.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 0) is found
    assert rlmm.highest_offset_for_epoch(SAMPLE_PARTITION, 0) == 9
    assert list(rlmm.list_remote_log_segments(SAMPLE_PARTITION)) == [found]
    assert list(rlmm.list_remote_log_segments(SAMPLE_PARTITION, 1)) == []
    assert rlmm.remote_log_size(SAMPLE_PARTITION, 0) == 1_000
    assert rlmm.next_segment_with_txn_index(SAMPLE_PARTITION, 0, 0) is None
    CALLS["delete"](rlmm)
    assert real.partition_delete_metadata(SAMPLE_PARTITION) is not None


def test_a_manager_that_comes_later_learns_of_all_replicas_as_they_are_then() -> None:
    rlmm = SwappableRlmm(NotReadyRlmm())
    gone = TopicIdPartition(uuid.UUID(int=3), "gone", 0)
    rlmm.on_partition_leadership_changes([SAMPLE_PARTITION, gone], [OTHER_PARTITION])
    rlmm.on_partition_leadership_changes([OTHER_PARTITION], [SAMPLE_PARTITION])
    rlmm.on_stop_partitions([gone])
    first, second = NoticedRlmm(), NoticedRlmm()
    rlmm.swap(first)
    assert first.notices == [("lead", "other", "follow", "events")]
    rlmm.on_stop_partitions([OTHER_PARTITION])
    assert first.notices[1:] == [("stop", "other")]
    assert rlmm.swap(second) is first
    assert second.notices == [("lead", "follow", "events")]


def test_a_node_without_replicas_tells_a_new_manager_nothing() -> None:
    new = NoticedRlmm()
    SwappableRlmm(NotReadyRlmm()).swap(new)
    assert new.notices == []


def test_closing_closes_the_manager_that_is_in_use() -> None:
    old, new = NoticedRlmm(), NoticedRlmm()
    rlmm = SwappableRlmm(old)
    rlmm.swap(new)
    rlmm.close()
    assert (old.notices, new.notices) == ([], [("close",)])
