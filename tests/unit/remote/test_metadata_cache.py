"""What a partition's segments look like to readers and cleaners, by state and epoch."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from crabka.remote.errors import InvalidAddError, InvalidSegmentTransitionError
from crabka.remote.metadata_cache import RemoteLogMetadataCache
from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from crabka.testing.remote_samples import (
    SAMPLE_PARTITION,
    in_state,
    sample_partition_delete,
    sample_segment,
    sample_update,
)

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def put(
    cache: RemoteLogMetadataCache, segment: RemoteLogSegmentMetadata, *states: RemoteLogSegmentState
) -> RemoteLogSegmentMetadata:
    cache.add(segment)
    for state in states or (FINISHED,):
        cache.update(sample_update(segment, state))
    return segment


def found(cache: RemoteLogMetadataCache, epoch: int, offset: int) -> int | None:
    segment = cache.find(epoch, offset)
    return None if segment is None else segment.segment_id.id.int


def numbers(cache: RemoteLogMetadataCache, epoch: int) -> list[int]:
    return sorted(segment.segment_id.id.int for segment in cache.segments_of_epoch(epoch))


def test_a_segment_is_found_only_while_it_is_finished() -> None:
    cache = RemoteLogMetadataCache()
    segment = sample_segment(1, (0, 9))
    cache.add(segment)
    assert cache.find(0, 5) is None
    for state, expected in [(FINISHED, in_state(segment, FINISHED)), (DELETING, None), (DELETED, None)]:
        assert cache.update(sample_update(segment, state))
        assert cache.find(0, 5) == expected


def test_a_segment_is_listed_until_its_deletion_is_finished() -> None:
    cache = RemoteLogMetadataCache()
    segment = sample_segment(1, (0, 9))
    cache.add(segment)
    for state in (FINISHED, DELETING):
        assert numbers(cache, 0) == [1]
        assert len(cache.segments()) == 1
        cache.update(sample_update(segment, state))
    cache.update(sample_update(segment, DELETED))
    assert numbers(cache, 0) == []
    assert not cache.has_segments


def test_an_epoch_ends_inside_a_segment_where_the_next_one_begins() -> None:
    cache = RemoteLogMetadataCache()
    put(cache, sample_segment(1, (0, 99), {0: 0, 1: 50, 4: 80}))
    answers = {(0, 49): 1, (0, 50): None, (0, 75): None, (1, 49): None, (1, 50): 1, (1, 80): None, (4, 99): 1}
    assert {query: found(cache, *query) for query in answers} == answers
    assert (found(cache, 2, 60), found(cache, 4, 100)) == (None, None)


def test_the_highest_offset_of_an_epoch_is_the_epochs_end_in_finished_segments_and_never_falls() -> None:
    cache = RemoteLogMetadataCache()
    started = sample_segment(1, (0, 99), {0: 0, 1: 50})
    cache.add(started)
    assert cache.highest_offset(0) is None
    cache.update(sample_update(started, FINISHED))
    assert dict(cache.highest_offsets) == {0: 49, 1: 99}
    put(cache, sample_segment(2, (10, 70), {1: 10}))
    assert cache.highest_offset(1) == 99
    for state in (DELETING, DELETED):
        cache.update(sample_update(started, state))
        assert dict(cache.highest_offsets) == {0: 49, 1: 99}


def test_an_abandoned_copy_leaves_no_highest_offset() -> None:
    cache = RemoteLogMetadataCache()
    put(cache, sample_segment(1, (0, 99)), DELETING)
    assert cache.highest_offset(0) is None
    assert numbers(cache, 0) == [1]


def test_the_size_of_an_epoch_counts_finished_segments_with_any_record_of_it() -> None:
    cache = RemoteLogMetadataCache()
    put(cache, sample_segment(1, (0, 99), {0: 0, 1: 50}, size_bytes=10))
    expired = put(cache, sample_segment(2, (100, 199), {1: 100}, size_bytes=200))
    put(cache, sample_segment(3, (200, 299), {1: 200}, size_bytes=3_000), DELETING)
    cache.add(sample_segment(4, (300, 399), {1: 300}, size_bytes=40_000))
    assert [cache.size_bytes(epoch) for epoch in (0, 1, 2)] == [10, 210, 0]
    cache.update(sample_update(expired, DELETING))
    assert cache.size_bytes(1) == 10


def test_a_segment_of_several_epochs_is_listed_under_each_of_them() -> None:
    cache = RemoteLogMetadataCache()
    put(cache, sample_segment(1, (0, 99), {0: 0, 1: 50}))
    cache.add(sample_segment(2, (100, 199), {1: 100, 3: 150}))
    assert [numbers(cache, epoch) for epoch in (0, 1, 2, 3)] == [[1], [1, 2], [], [2]]


def test_the_next_transaction_index_is_looked_for_within_the_epoch() -> None:
    cache = RemoteLogMetadataCache()
    put(cache, sample_segment(1, (0, 99)))
    wanted = put(cache, sample_segment(2, (100, 199), {0: 100, 1: 150}, with_txn_index=True))
    assert cache.find_with_txn_index(0, 5) == in_state(wanted, FINISHED)
    assert cache.find_with_txn_index(0, 150) is None
    assert cache.find_with_txn_index(7, 5) is None


def test_a_refused_change_leaves_everything_as_it_was() -> None:
    cache = RemoteLogMetadataCache()
    segment = put(cache, sample_segment(1, (0, 9)), FINISHED, DELETING)
    before = list(cache.segments())
    with pytest.raises(InvalidSegmentTransitionError):
        cache.update(sample_update(segment, FINISHED))
    with pytest.raises(InvalidAddError):
        cache.add(segment)
    assert list(cache.segments()) == before
    assert cache.find(0, 5) is None


def test_a_repeated_change_says_that_nothing_changed() -> None:
    cache = RemoteLogMetadataCache()
    segment = sample_segment(1, (0, 9))
    assert cache.add(segment)
    assert not cache.add(segment)
    assert cache.update(sample_update(segment, FINISHED))
    assert not cache.update(sample_update(segment, FINISHED, event_timestamp_ms=5))
    assert list(cache.segments()) == [in_state(segment, FINISHED)]
    assert not cache.update(sample_update(sample_segment(2, (0, 9)), DELETED))


def test_a_partition_that_is_to_be_deleted_takes_no_new_segment_but_lets_others_go_on() -> None:
    cache = RemoteLogMetadataCache()
    segment = sample_segment(1, (0, 9))
    cache.add(segment)
    cache.partition_delete = sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
    with pytest.raises(InvalidAddError):
        cache.add(sample_segment(2, (10, 19)))
    assert cache.update(sample_update(segment, FINISHED))


def test_loading_needs_no_legal_history_and_keeps_order_and_highest_offsets() -> None:
    cache = RemoteLogMetadataCache()
    first, second = (in_state(sample_segment(number, (0, 9)), FINISHED) for number in (2, 1))
    leftover = in_state(sample_segment(3, (10, 19)), DELETING)
    started = in_state(sample_segment(4, (20, 29)), STARTED)
    cache.load([first, second, leftover, started], {0: 500, 1: 7})
    assert cache.find(0, 5) == second
    assert list(cache.segments()) == [first, second, leftover, started]
    assert dict(cache.highest_offsets) == {0: 500, 1: 7}
    assert cache.update(sample_update(leftover, DELETED))
    assert cache.update(sample_update(started, FINISHED))
    assert cache.find(0, 25) == in_state(started, FINISHED)


def test_a_plain_step_is_taken_only_where_it_may_follow_and_keeps_custom_metadata() -> None:
    cache = RemoteLogMetadataCache()
    custom = CustomMetadata(b"place")
    segment = replace(sample_segment(1, (0, 9)), custom_metadata=custom)
    key = segment.segment_id.id.int
    assert not cache.take_step(key, FINISHED, 1, 5)
    cache.add(segment)
    assert not cache.take_step(key, DELETED, 1, 5)
    assert cache.take_step(key, FINISHED, 7, 5)
    assert cache.find(0, 5) == replace(segment, state=FINISHED, broker_id=7, event_timestamp_ms=5)
    assert not cache.take_step(key, FINISHED, 7, 5)
    assert cache.take_step(key, DELETING, 1, 6)
    assert cache.find(0, 5) is None
    assert cache.take_step(key, DELETED, 1, 7)
    assert not cache.has_segments


def test_the_number_of_a_segment_is_in_memory_once() -> None:
    cache = RemoteLogMetadataCache()
    segment = replace(sample_segment(1, (0, 9)), segment_id=RemoteLogSegmentId(SAMPLE_PARTITION, uuid.UUID(int=2**100)))
    cache.add(segment)
    assert cache.take_step(int(str(2**100)), FINISHED, 1, 5)
    assert [key is segment.segment_id.id.int for key in cache._segments] == [True]
