"""Removing segments and whole partitions, also where others are at it, too."""

from __future__ import annotations

import pytest

from crabka.remote.errors import InvalidAddError, NotReadyError, RemoteBackendError
from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from crabka.testing.faulty_storage import StorageFault
from tests.support.async_tests import run_with
from tests.support.tiers.scene import TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import DELETING, FINISHED, ORDERS, STARTED, remote_segment


def put(scene: TierScene, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """Let the metadata know a segment in its state."""
    begun = remote_segment(segment.start_offset, segment.end_offset, state=STARTED)
    scene.rlmm.add_remote_log_segment_metadata(begun)
    states = {STARTED: [], FINISHED: [FINISHED], DELETING: [FINISHED, DELETING]}
    for state in states[segment.state]:
        step(scene, segment, state)
    return segment


def step(scene: TierScene, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
    scene.rlmm.update_remote_log_segment_metadata(
        RemoteLogSegmentMetadataUpdate(segment_id=segment.segment_id, event_timestamp_ms=0, state=state, broker_id=9)
    )


@pytest.mark.parametrize("state", [STARTED, FINISHED, DELETING])
@run_with(in_scene)
async def test_a_segment_goes_from_whatever_state(scene: TierScene, /, state: RemoteLogSegmentState) -> None:

    broker = scene.broker()
    await passes(0.01)
    segment = put(scene, remote_segment(0, 9, state=state))
    removed: list[RemoteLogSegmentId] = []
    broker.manager.subscribe_removed(removed.append)
    await broker.manager._segments.remove(segment)
    assert scene.listed() == []
    assert scene.storage.calls == [("delete_log_segment_data", segment.segment_id)]
    assert removed == [segment.segment_id]


@run_with(in_scene)
async def test_the_data_go_only_after_the_step_is_stored(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.01)
    segment = put(scene, remote_segment(0, 9))
    seen = []
    scene.storage.add(StorageFault(operation="delete_log_segment_data", before=lambda *_: seen.extend(scene.states())))
    await broker.manager._segments.remove(segment)
    assert [state for _, _, state in seen] == [DELETING]


@pytest.mark.parametrize("steps", [(DELETING,), (DELETING, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)])
@run_with(in_scene)
async def test_another_leader_may_be_as_far_or_further(
    scene: TierScene, /, steps: tuple[RemoteLogSegmentState, ...]
) -> None:

    broker = scene.broker()
    await passes(0.01)
    segment = put(scene, remote_segment(0, 9))
    for state in steps:
        step(scene, segment, state)
    # What this broker knows is older.
    await broker.manager._segments.remove(segment)
    assert scene.listed() == []


@run_with(in_scene)
async def test_a_segment_is_not_removed_twice_at_once(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.01)
    segment = put(scene, remote_segment(0, 9))
    remover = broker.manager._segments
    remover.in_flight.add(segment.segment_id)
    await remover.remove(segment)
    assert scene.storage.calls == []


@run_with(in_scene)
async def test_a_partition_is_marked_before_anything_goes_and_forgotten_in_the_end(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.01)
    for start in (0, 10, 20):
        put(scene, remote_segment(start, start + 9, state=(FINISHED, STARTED, DELETING)[start // 10]))
    marks = []

    def look(_operation: str, _segment: object) -> None:
        marks.append(scene.rlmm.partition_delete_metadata(ORDERS))
        # No segment can be added during the deletion.
        with pytest.raises(InvalidAddError):
            scene.rlmm.add_remote_log_segment_metadata(remote_segment(90, 99, state=STARTED))

    scene.storage.add(StorageFault(operation="delete_log_segment_data", before=look))
    await broker.manager._removers.delete(ORDERS)
    assert [mark.state for mark in marks if mark is not None] == [
        RemotePartitionDeleteState.DELETE_PARTITION_STARTED
    ] * 3
    assert scene.rlmm.partitions() == []
    assert scene.store.segment_ids() == []


@pytest.mark.parametrize("state", [None, *RemotePartitionDeleteState][:3])
@run_with(in_scene)
async def test_a_deletion_goes_on_where_another_one_ended(
    scene: TierScene, /, state: RemotePartitionDeleteState | None
) -> None:

    broker = scene.broker()
    await passes(0.01)
    put(scene, remote_segment(0, 9))
    for reached in RemotePartitionDeleteState:
        if state is not None and reached <= state:
            scene.rlmm.put_remote_partition_delete_metadata(
                RemotePartitionDeleteMetadata(
                    topic_id_partition=ORDERS, state=reached, event_timestamp_ms=0, broker_id=9
                )
            )
    await broker.manager._removers.delete(ORDERS)
    assert scene.rlmm.partitions() == []


@run_with(in_scene)
async def test_a_store_that_fails_leaves_the_mark_and_another_try_ends_it(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.01)
    put(scene, remote_segment(0, 9))
    scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down"), times=1))
    with pytest.raises(RemoteBackendError):
        await broker.manager._removers.delete(ORDERS)
    assert scene.rlmm.partition_delete_metadata(ORDERS) is not None
    await broker.manager._removers.delete(ORDERS)
    assert scene.rlmm.partitions() == []


@run_with(in_scene)
async def test_a_deletion_is_not_finished_before_all_segments_are_gone(scene: TierScene, /) -> None:
    """A removal that is under way may still fail, and only the metadata knows that there is something to remove."""

    broker = scene.broker()
    await passes(0.01)
    segment = put(scene, remote_segment(0, 9, state=FINISHED))
    in_flight = broker.manager._segments.in_flight
    in_flight.add(segment.segment_id)
    with pytest.raises(NotReadyError, match="not all"):
        await broker.manager._removers.delete(ORDERS)
    assert [each.segment_id for each in scene.listed()] == [segment.segment_id]
    in_flight.clear()
    await broker.manager._removers.delete(ORDERS)
    assert (scene.rlmm.partitions(), scene.storage.calls) == ([], [("delete_log_segment_data", segment.segment_id)])


@run_with(in_scene)
async def test_purging_leaves_a_partition_that_may_get_new_segments(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.01)
    put(scene, remote_segment(0, 9))
    await broker.manager._removers.purge(ORDERS)
    assert scene.listed() == []
    put(scene, remote_segment(10, 19))


@run_with(in_scene)
async def test_a_deletion_that_is_only_begun_has_no_data_and_is_finished_later(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.01)
    segment, remover = put(scene, remote_segment(0, 9, state=STARTED)), broker.manager._segments
    remover.in_flight.add(segment.segment_id)
    await remover.begin(segment)
    assert scene.storage.calls == []
    remover.in_flight.clear()
    await remover.begin(segment)
    assert [state for _, _, state in scene.states()] == [DELETING]
    assert scene.storage.calls == [("delete_log_segment_data", segment.segment_id)]
    (begun,) = scene.listed()
    await remover.remove(begun)
    assert (scene.listed(), len(scene.storage.calls)) == ([], 2)
