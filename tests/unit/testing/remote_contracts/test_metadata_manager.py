"""The suite for metadata managers notices each way in which one can be wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import pytest

from crabka.remote.errors import InvalidAddError, InvalidSegmentTransitionError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from crabka.testing.remote_contracts import CONTRACT_PARTITIONS, MetadataManagerContract
from tests.support.contracts import broken_promises, promises_of

Inmemory = InmemoryRemoteLogMetadataManager
Metadata = RemoteLogSegmentMetadata
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class ForgetsWhereEpochsEnd(Inmemory):
    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> Metadata | None:
        for segment in self.list_remote_log_segments(partition, leader_epoch):
            if segment.state is FINISHED and segment.start_offset <= offset <= segment.end_offset:
                return segment
        return None


class PrefersTheShortest(Inmemory):
    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> Metadata | None:
        found = super().remote_log_segment_metadata(partition, leader_epoch, offset)
        covering = [
            segment
            for segment in self.list_remote_log_segments(partition, leader_epoch)
            if segment.state is FINISHED and segment.start_offset <= offset <= segment.end_offset
        ]
        return found and min(covering, key=lambda segment: segment.end_offset - segment.start_offset)


class ReadsUnfinished(Inmemory):
    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> Metadata | None:
        return next(self.list_remote_log_segments(partition, leader_epoch), None)


class HighestFalls(Inmemory):
    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        segments = self.list_remote_log_segments(partition, leader_epoch)
        ends = [segment.end_offset for segment in segments if segment.state is FINISHED]
        return min(max(ends), super().highest_offset_for_epoch(partition, leader_epoch) or 0) if ends else None


class ListsOnlyFinished(Inmemory):
    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[Metadata]:
        listed = super().list_remote_log_segments(partition, leader_epoch)
        return (segment for segment in listed if segment.state is FINISHED)


class ListsAllForAnEpoch(Inmemory):
    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[Metadata]:
        return super().list_remote_log_segments(partition)


class AcceptsEverything(Inmemory):
    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        with contextlib.suppress(InvalidSegmentTransitionError):
            super().update_remote_log_segment_metadata(update)


class AddsEverything(Inmemory):
    def add_remote_log_segment_metadata(self, metadata: Metadata) -> None:
        with contextlib.suppress(InvalidAddError):
            super().add_remote_log_segment_metadata(metadata)


class RefusesRetries(Inmemory):
    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        known = {segment.segment_id: segment for segment in self.list_remote_log_segments(update.topic_id_partition)}
        segment = known.get(update.segment_id)
        if segment is not None and segment.state is update.state:
            raise InvalidSegmentTransitionError(update.segment_id, segment.state, update.state)
        super().update_remote_log_segment_metadata(update)


class LosesCustomMetadata(Inmemory):
    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        super().update_remote_log_segment_metadata(replace(update, custom_metadata=None))


class ForgetsDeletions(Inmemory):
    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None: ...


class ForgetsOldLeaders(Inmemory):
    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        self.forget(followers)


BROKEN: dict[type[InmemoryRemoteLogMetadataManager], str] = {
    ForgetsWhereEpochsEnd: "test_an_epoch_ends_inside_a_segment_where_the_next_one_begins",
    PrefersTheShortest: "test_a_longer_segment_is_found_wherever_shorter_ones_lie_inside_it",
    ReadsUnfinished: "test_a_segment_is_found_only_while_it_is_finished",
    HighestFalls: "test_the_highest_offset_of_an_epoch_never_falls",
    ListsOnlyFinished: "test_a_segment_is_listed_in_every_state_until_its_deletion_is_finished",
    ListsAllForAnEpoch: "test_a_segment_is_listed_under_each_of_its_epochs",
    AcceptsEverything: "test_a_step_that_is_not_legal_is_refused_and_changes_nothing",
    AddsEverything: "test_a_segment_begins_with_its_copy_and_keeps_its_content",
    RefusesRetries: "test_a_step_may_be_taken_again",
    LosesCustomMetadata: "test_custom_metadata_are_kept_until_others_come",
    ForgetsDeletions: "test_the_deletion_of_a_partition_goes_step_by_step",
    ForgetsOldLeaders: "test_a_change_of_leadership_loses_nothing",
}


def broken_by(manager: type[InmemoryRemoteLogMetadataManager]) -> set[str]:
    def fixtures() -> dict[str, Any]:
        return {"leader": manager()}

    return broken_promises(MetadataManagerContract, fixtures)


def test_a_manager_that_is_right_passes() -> None:
    assert broken_by(InmemoryRemoteLogMetadataManager) == set()
    assert len(promises_of(MetadataManagerContract)) > 10


@pytest.mark.parametrize("manager", BROKEN, ids=lambda manager: manager.__name__)
def test_a_manager_that_is_wrong_is_noticed(manager: type[InmemoryRemoteLogMetadataManager]) -> None:
    assert BROKEN[manager] in broken_by(manager)


def test_the_partitions_of_the_suite_differ_in_nothing_but_their_topics_ids() -> None:
    first, second = CONTRACT_PARTITIONS
    assert first.topic_partition == second.topic_partition
    assert first != second
