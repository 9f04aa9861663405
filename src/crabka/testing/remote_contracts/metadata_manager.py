"""The contract of RemoteLogMetadataManager (KIP-405)."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crabka.remote.errors import (
    InvalidAddError,
    InvalidPartitionDeleteTransitionError,
    InvalidSegmentTransitionError,
)
from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from crabka.testing.remote_samples import (
    SAMPLE_PARTITION,
    in_state,
    sample_partition_delete,
    sample_segment,
    sample_update,
)

if TYPE_CHECKING:
    from crabka.remote.metadata_manager import RemoteLogMetadataManager
    from crabka.remote.segments import RemoteLogSegmentMetadata

_OTHER = TopicIdPartition(uuid.UUID(int=0xFEED), SAMPLE_PARTITION.topic, SAMPLE_PARTITION.partition)
CONTRACT_PARTITIONS = (SAMPLE_PARTITION, _OTHER)
"""The partitions of the tests; the second has the name of the first and another id."""

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
_PATHS_TO = {
    _STARTED: (),
    _FINISHED: (_FINISHED,),
    _DELETING: (_FINISHED, _DELETING),
    _DELETED: (_FINISHED, _DELETING, _DELETED),
}


class MetadataManagerContract:
    """Tests of a metadata manager. A subclass has the fixture `rlmm`: one without segments.

    It must be ready for CONTRACT_PARTITIONS at once, or soon after the notification that the node leads them; then
    the subclass overrides `wait_until_ready`.
    """

    @pytest.fixture
    def rlmm(self) -> RemoteLogMetadataManager:
        """A manager without segments."""
        raise NotImplementedError

    def wait_until_ready(self, rlmm: RemoteLogMetadataManager, partition: TopicIdPartition) -> None:
        """Wait until a manager is ready for one of the partitions that were assigned to it."""
        assert rlmm.is_ready(partition)

    @pytest.fixture
    def leader(self, rlmm: RemoteLogMetadataManager) -> RemoteLogMetadataManager:
        """The manager of a node that leads the partitions of these tests."""
        rlmm.on_partition_leadership_changes(list(CONTRACT_PARTITIONS), [])
        for partition in CONTRACT_PARTITIONS:
            self.wait_until_ready(rlmm, partition)
        return rlmm

    def test_of_a_partition_without_segments_every_answer_is_empty(self, leader: RemoteLogMetadataManager) -> None:
        assert leader.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 0) is None
        assert leader.highest_offset_for_epoch(SAMPLE_PARTITION, 0) is None
        assert list(leader.list_remote_log_segments(SAMPLE_PARTITION)) == []
        assert list(leader.list_remote_log_segments(SAMPLE_PARTITION, 0)) == []
        assert leader.remote_log_size(SAMPLE_PARTITION, 0) == 0
        assert leader.next_segment_with_txn_index(SAMPLE_PARTITION, 0, 0) is None

    def test_a_segment_is_found_only_while_it_is_finished(self, leader: RemoteLogMetadataManager) -> None:
        segment = sample_segment(1, (0, 9), with_txn_index=True)
        leader.add_remote_log_segment_metadata(segment)
        for state in (_STARTED, _FINISHED, _DELETING, _DELETED):
            if state is not _STARTED:
                leader.update_remote_log_segment_metadata(sample_update(segment, state))
            expected = in_state(segment, _FINISHED) if state is _FINISHED else None
            assert leader.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 5) == expected
            assert leader.next_segment_with_txn_index(SAMPLE_PARTITION, 0, 5) == expected
            assert leader.remote_log_size(SAMPLE_PARTITION, 0) == (1_000 if state is _FINISHED else 0)

    def test_a_segment_is_listed_in_every_state_until_its_deletion_is_finished(
        self, leader: RemoteLogMetadataManager
    ) -> None:
        segments = [sample_segment(number, (number * 10, number * 10 + 9)) for number in (3, 1, 2, 0)]
        for segment, state in zip(segments, (_STARTED, _FINISHED, _DELETING, _DELETED), strict=True):
            bring(leader, segment, state)
        for epoch in (None, 0):
            listed = list(leader.list_remote_log_segments(SAMPLE_PARTITION, epoch))
            assert [(segment.start_offset, segment.state) for segment in listed] == [
                (10, _FINISHED),
                (20, _DELETING),
                (30, _STARTED),
            ]

    def test_a_segment_is_listed_under_each_of_its_epochs(self, leader: RemoteLogMetadataManager) -> None:
        bring(leader, sample_segment(1, (0, 99), {0: 0, 2: 50}), _FINISHED)
        bring(leader, sample_segment(2, (100, 199), {2: 100, 3: 150}), _STARTED)
        listed = {epoch: numbers(leader, epoch) for epoch in range(5)}
        assert listed == {0: [1], 1: [], 2: [1, 2], 3: [2], 4: []}

    def test_an_epoch_ends_inside_a_segment_where_the_next_one_begins(self, leader: RemoteLogMetadataManager) -> None:
        bring(leader, sample_segment(1, (0, 99), {0: 0, 1: 50}), _FINISHED)
        answers = {(0, 49): 1, (0, 50): None, (0, 75): None, (1, 49): None, (1, 50): 1, (1, 99): 1, (1, 100): None}
        assert {query: found(leader, *query) for query in answers} == answers

    def test_of_segments_with_one_start_the_longer_is_found_and_the_other_when_that_is_deleted(
        self, leader: RemoteLogMetadataManager
    ) -> None:
        longer = sample_segment(2, (0, 199))
        bring(leader, sample_segment(1, (0, 99)), _FINISHED)
        bring(leader, longer, _FINISHED)
        assert [found(leader, 0, offset) for offset in (50, 150)] == [2, 2]
        leader.update_remote_log_segment_metadata(sample_update(longer, _DELETING))
        assert [found(leader, 0, offset) for offset in (50, 150)] == [1, None]

    def test_a_longer_segment_is_found_wherever_shorter_ones_lie_inside_it(
        self, leader: RemoteLogMetadataManager
    ) -> None:
        bring(leader, sample_segment(1, (10, 90)), _FINISHED)
        bring(leader, sample_segment(2, (5, 100)), _FINISHED)
        bring(leader, sample_segment(3, (101, 200)), _FINISHED)
        bring(leader, sample_segment(4, (20, 30)), _FINISHED)
        answers = {4: None, 5: 2, 25: 2, 50: 2, 95: 2, 101: 3, 200: 3, 201: None}
        assert {offset: found(leader, 0, offset) for offset in answers} == answers

    def test_the_highest_offset_of_an_epoch_never_falls(self, leader: RemoteLogMetadataManager) -> None:
        segment = sample_segment(1, (0, 99), {0: 0, 1: 50})
        bring(leader, segment, _STARTED)
        assert leader.highest_offset_for_epoch(SAMPLE_PARTITION, 0) is None
        for state in (_FINISHED, _DELETING, _DELETED):
            leader.update_remote_log_segment_metadata(sample_update(segment, state))
            assert [leader.highest_offset_for_epoch(SAMPLE_PARTITION, epoch) for epoch in (0, 1)] == [49, 99]
        bring(leader, sample_segment(2, (10, 19)), _FINISHED)
        assert leader.highest_offset_for_epoch(SAMPLE_PARTITION, 0) == 49

    def test_the_next_transaction_index_is_at_the_offset_or_behind_it(self, leader: RemoteLogMetadataManager) -> None:
        bring(leader, sample_segment(1, (0, 9)), _FINISHED)
        bring(leader, sample_segment(2, (10, 19), with_txn_index=True), _FINISHED)
        bring(leader, sample_segment(3, (20, 29)), _FINISHED)
        answers = [leader.next_segment_with_txn_index(SAMPLE_PARTITION, 0, offset) for offset in (0, 19, 20)]
        assert [None if answer is None else answer.segment_id.id.int for answer in answers] == [2, 2, None]

    def test_a_step_that_is_not_legal_is_refused_and_changes_nothing(self, leader: RemoteLogMetadataManager) -> None:
        refused = {
            _STARTED: (_STARTED, _DELETED),
            _FINISHED: (_STARTED, _DELETED),
            _DELETING: (_STARTED, _FINISHED),
        }
        for number, (state, targets) in enumerate(refused.items()):
            segment = sample_segment(number, (number * 10, number * 10 + 9))
            bring(leader, segment, state)
            for target in targets:
                with pytest.raises(InvalidSegmentTransitionError) as error:
                    leader.update_remote_log_segment_metadata(sample_update(segment, target))
                assert (error.value.source, error.value.target) == (state, target)
        listed = leader.list_remote_log_segments(SAMPLE_PARTITION)
        assert [segment.state for segment in listed] == list(refused)

    def test_a_step_of_an_unknown_segment_is_refused_unless_it_is_the_last(
        self, leader: RemoteLogMetadataManager
    ) -> None:
        for state in (_FINISHED, _DELETING):
            with pytest.raises(InvalidSegmentTransitionError) as error:
                leader.update_remote_log_segment_metadata(sample_update(sample_segment(1, (0, 9)), state))
            assert error.value.source is None
        leader.update_remote_log_segment_metadata(sample_update(sample_segment(1, (0, 9)), _DELETED))
        assert list(leader.list_remote_log_segments(SAMPLE_PARTITION)) == []

    def test_a_step_may_be_taken_again(self, leader: RemoteLogMetadataManager) -> None:
        segment = sample_segment(1, (0, 9))
        for _ in range(2):
            leader.add_remote_log_segment_metadata(segment)
        for state in (_FINISHED, _DELETING, _DELETED):
            for _ in range(2):
                leader.update_remote_log_segment_metadata(sample_update(segment, state))
            expected = [] if state is _DELETED else [in_state(segment, state)]
            assert list(leader.list_remote_log_segments(SAMPLE_PARTITION)) == expected

    def test_a_segment_begins_with_its_copy_and_keeps_its_content(self, leader: RemoteLogMetadataManager) -> None:
        segment = sample_segment(1, (0, 9))
        for state in (_FINISHED, _DELETING, _DELETED):
            with pytest.raises(InvalidAddError):
                leader.add_remote_log_segment_metadata(in_state(segment, state))
        leader.add_remote_log_segment_metadata(segment)
        with pytest.raises(InvalidAddError):
            leader.add_remote_log_segment_metadata(replace(segment, end_offset=8))
        assert list(leader.list_remote_log_segments(SAMPLE_PARTITION)) == [segment]

    def test_custom_metadata_are_kept_until_others_come(self, leader: RemoteLogMetadataManager) -> None:
        segment = sample_segment(1, (0, 9))
        custom = CustomMetadata(b"\0place\xff")
        leader.add_remote_log_segment_metadata(segment)
        leader.update_remote_log_segment_metadata(sample_update(segment, _FINISHED, custom_metadata=custom))
        finished = leader.remote_log_segment_metadata(SAMPLE_PARTITION, 0, 5)
        assert finished == replace(in_state(segment, _FINISHED), custom_metadata=custom)
        leader.update_remote_log_segment_metadata(
            sample_update(segment, _DELETING, broker_id=4, event_timestamp_ms=1_700_000_009_000)
        )
        (deleting,) = leader.list_remote_log_segments(SAMPLE_PARTITION)
        assert (deleting.custom_metadata, deleting.broker_id) == (custom, 4)
        assert deleting.event_timestamp_ms == 1_700_000_009_000

    def test_a_partition_is_known_by_its_id_and_not_by_its_name(self, leader: RemoteLogMetadataManager) -> None:
        bring(leader, sample_segment(1, (0, 9)), _FINISHED)
        bring(leader, sample_segment(2, (0, 19), partition=_OTHER), _FINISHED)
        answers = [leader.remote_log_segment_metadata(partition, 0, 5) for partition in CONTRACT_PARTITIONS]
        assert [answer and answer.segment_id.id.int for answer in answers] == [1, 2]
        assert [leader.highest_offset_for_epoch(partition, 0) for partition in CONTRACT_PARTITIONS] == [9, 19]
        renamed = TopicIdPartition(SAMPLE_PARTITION.topic_id, "renamed", SAMPLE_PARTITION.partition)
        assert leader.remote_log_segment_metadata(renamed, 0, 5) == answers[0]

    def test_the_deletion_of_a_partition_goes_step_by_step(self, leader: RemoteLogMetadataManager) -> None:
        bring(leader, sample_segment(1, (0, 9)), _FINISHED)
        steps = list(RemotePartitionDeleteState)
        for done, state in enumerate(steps):
            for skipped in steps[done + 1 :]:
                with pytest.raises(InvalidPartitionDeleteTransitionError) as error:
                    leader.put_remote_partition_delete_metadata(sample_partition_delete(skipped))
                assert (error.value.source, error.value.target) == (steps[done - 1] if done else None, skipped)
            assert numbers(leader, None) == [1]
            for _ in range(2):
                leader.put_remote_partition_delete_metadata(sample_partition_delete(state))
        assert numbers(leader, None) == []

    def test_a_partition_that_is_to_be_deleted_gets_no_new_segment(self, leader: RemoteLogMetadataManager) -> None:
        under_way = sample_segment(1, (0, 9))
        bring(leader, under_way, _STARTED)
        marked = sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        leader.put_remote_partition_delete_metadata(marked)
        with pytest.raises(InvalidAddError):
            leader.add_remote_log_segment_metadata(sample_segment(2, (10, 19)))
        leader.update_remote_log_segment_metadata(sample_update(under_way, _FINISHED))
        assert numbers(leader, None) == [1]

    def test_a_change_of_leadership_loses_nothing(self, leader: RemoteLogMetadataManager) -> None:
        bring(leader, sample_segment(1, (0, 9)), _FINISHED)
        leader.on_partition_leadership_changes([], [SAMPLE_PARTITION])
        self.wait_until_ready(leader, SAMPLE_PARTITION)
        assert found(leader, 0, 5) == 1

    def test_several_threads_may_use_it_at_once(self, leader: RemoteLogMetadataManager) -> None:
        def live(number: int) -> bool:
            bring(leader, sample_segment(number, (number * 10, number * 10 + 9)), _FINISHED)
            return found(leader, 0, number * 10 + 5) == number

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(live, range(60)))
        assert numbers(leader, 0) == list(range(60))


def bring(rlmm: RemoteLogMetadataManager, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
    """Add a segment and lead it to a state."""
    rlmm.add_remote_log_segment_metadata(segment)
    for step in _PATHS_TO[state]:
        rlmm.update_remote_log_segment_metadata(sample_update(segment, step))


def found(rlmm: RemoteLogMetadataManager, epoch: int, offset: int) -> int | None:
    """Return the number of the found segment."""
    segment = rlmm.remote_log_segment_metadata(SAMPLE_PARTITION, epoch, offset)
    return None if segment is None else segment.segment_id.id.int


def numbers(rlmm: RemoteLogMetadataManager, epoch: int | None) -> list[int]:
    """Return the numbers of the segments that are listed."""
    return [segment.segment_id.id.int for segment in rlmm.list_remote_log_segments(SAMPLE_PARTITION, epoch)]
