"""One metadata partition: applying, readiness, waiting, starting over."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from crabka.remote.errors import InvalidSegmentTransitionError, NotReadyError, RemoteStorageError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import RemotePartitionDeleteState
from crabka.remote_topic.event_log import EventBatch
from crabka.remote_topic.event_reader import MetadataEvent
from crabka.remote_topic.metadata_partition import MetadataPartition
from crabka.remote_topic.serde import encode_event
from crabka.testing import VirtualTimeLoop
from crabka.testing.remote_samples import SAMPLE_PARTITION, sample_partition_delete, sample_segment, sample_update
from tests.support.async_tests import run_with
from tests.support.tier_topic.events import DELETE_FINISHED, DELETE_STARTED, FINISHED

SEGMENT = sample_segment(1, (0, 99))
LIFE: list[MetadataEvent] = [
    SEGMENT,
    sample_update(SEGMENT, FINISHED),
    sample_update(SEGMENT, DELETE_STARTED),
    sample_update(SEGMENT, DELETE_FINISHED),
]


def batch(*events: MetadataEvent | bytes | None, start: int = 0, next_offset: int | None = None) -> EventBatch:
    values = [event if isinstance(event, bytes | None) else encode_event(event) for event in events]
    records = [(start + index, value) for index, value in enumerate(values)]
    return EventBatch(0, records, start + len(records) if next_offset is None else next_offset)


def assigned(target: int = 0) -> MetadataPartition:
    partition = MetadataPartition(0)
    partition.assign()
    partition.aim(target)
    return partition


def known(partition: MetadataPartition) -> list[MetadataEvent]:
    assert partition.readable is not None
    return list(partition.readable.list_remote_log_segments(SAMPLE_PARTITION))


def test_reads_are_refused_until_the_target_is_reached() -> None:
    partition = MetadataPartition(0)
    assert partition.readable is None
    partition.assign()
    partition.apply(batch(SEGMENT))
    assert partition.readable is None
    partition.aim(3)
    partition.apply(batch(LIFE[1], start=1))
    assert partition.readable is None
    partition.apply(batch(LIFE[2], start=2))
    assert [segment.state for segment in known(partition)] == [DELETE_STARTED]
    partition.unassign()
    assert partition.readable is None


def test_an_empty_partition_is_ready_at_once() -> None:
    assert known(assigned()) == []


def test_offsets_without_records_count_towards_the_target() -> None:
    partition = assigned(target=9)
    partition.apply(EventBatch(0, [], 9))
    assert partition.readable is not None
    assert partition.next_offset == 9


def test_events_that_were_applied_are_not_applied_again() -> None:
    partition = assigned()
    partition.apply(batch(*LIFE))
    assert known(partition) == []
    partition.apply(batch(*LIFE[:3]))
    assert known(partition) == []
    partition.apply(batch(*LIFE[1:3], sample_segment(2, (100, 199)), start=2))
    assert [segment.start_offset for segment in known(partition)] == [100]  # type: ignore[union-attr] # segments
    assert partition.counts.refused == 0


def test_poison_is_counted_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    partition = assigned()
    partition.apply(batch(b"\x01\x09\x00what", None, SEGMENT, b""))
    assert partition.counts.poisonous == 3
    assert partition.counts.applied == 1
    assert partition.next_offset == 4
    assert known(partition) == [SEGMENT]
    assert "record 0 of metadata partition 0 is skipped" in caplog.text


def test_steps_that_were_taken_count_as_applied_and_those_that_may_not_follow_as_refused() -> None:
    partition = assigned()
    late = sample_update(SEGMENT, FINISHED)
    partition.apply(batch(*LIFE[:2], LIFE[1], LIFE[2], late, *LIFE[2:], LIFE[3]))
    assert (partition.counts.applied, partition.counts.refused) == (7, 1)
    assert known(partition) == []


def test_the_offset_moves_only_after_its_event_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = assigned()
    seen: list[int] = []
    apply = InmemoryRemoteLogMetadataManager.take_step

    def spy(self: InmemoryRemoteLogMetadataManager, *step: Any) -> bool:
        seen.append(partition.capture().next_offset)
        return apply(self, *step)

    monkeypatch.setattr(InmemoryRemoteLogMetadataManager, "take_step", spy)
    partition.apply(batch(*LIFE))
    assert seen == [1, 2, 3]


def test_a_failure_while_applying_leaves_the_offset_before_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = assigned()
    monkeypatch.setattr(InmemoryRemoteLogMetadataManager, "take_step", lambda *_: 1 / 0)  # a bug
    with pytest.raises(ZeroDivisionError):
        partition.apply(batch(*LIFE))
    assert partition.next_offset == 1


def test_only_what_moved_on_is_dirty() -> None:
    partition = assigned()
    assert not partition.is_dirty
    partition.apply(batch(SEGMENT))
    assert partition.is_dirty
    capture = partition.capture()
    partition.apply(batch(LIFE[1], start=1))
    partition.note_snapshot(capture)
    assert partition.is_dirty
    partition.note_snapshot(partition.capture())
    assert not partition.is_dirty


def test_a_snapshot_of_a_void_history_does_not_make_the_new_one_clean() -> None:
    partition = assigned()
    partition.apply(batch(SEGMENT))
    capture = partition.capture()
    partition.start_over()
    assert partition.readable is None
    partition.apply(batch(SEGMENT))
    partition.note_snapshot(capture)
    assert partition.is_dirty


def test_what_a_snapshot_had_is_taken_over() -> None:
    first, second = assigned(), MetadataPartition(0)
    first.apply(batch(SEGMENT, LIFE[1], sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)))
    capture = first.capture()
    view = InmemoryRemoteLogMetadataManager()
    view.load(capture.dump)
    second.load(view, capture.next_offset, capture.leader_epoch)
    assert second.is_loaded
    assert not second.is_dirty
    second.assign()
    second.aim(3)
    # Whether the log still has it is not known.
    assert second.readable is None
    second.apply(EventBatch(0, [], 3))
    assert known(second) == known(first)
    assert second.readable is not None
    deletion = second.readable.partition_delete_metadata(SAMPLE_PARTITION)
    assert deletion is not None
    assert deletion.event_timestamp_ms == 1_700_000_002_000


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    VirtualTimeLoop().run(coroutine)


@run_with(lambda test: run(test()))
async def test_who_waits_for_an_offset_is_woken_by_it_and_not_before() -> None:
    partition = assigned()
    with partition.publishing():
        waiting = asyncio.ensure_future(partition.wait_applied(1, encode_event(LIFE[1])))
        await asyncio.sleep(0)
        partition.apply(batch(SEGMENT))
        await asyncio.sleep(0)
        assert not waiting.done()
        partition.apply(batch(LIFE[1], start=1))
        await waiting
        await partition.wait_applied(0, encode_event(SEGMENT))


@run_with(lambda test: run(test()))
async def test_a_refusal_reaches_who_published_even_if_it_came_first() -> None:
    partition = assigned()
    with partition.publishing():
        partition.apply(batch(LIFE[1]))
        with pytest.raises(InvalidSegmentTransitionError):
            await partition.wait_applied(0, encode_event(LIFE[1]))
    assert partition.counts.refused == 1
    # Refusals are remembered only while an event is published.
    assert partition._refusals == {}


@pytest.mark.parametrize("step", [MetadataPartition.unassign, MetadataPartition.start_over])
@run_with(lambda test: run(test()))
async def test_who_waits_is_notified_when_the_partition_is_taken_away(step: Any) -> None:
    partition = assigned()
    waiting = asyncio.ensure_future(partition.wait_applied(0, b""))
    await asyncio.sleep(0)
    step(partition)
    with pytest.raises(NotReadyError):
        await waiting


@run_with(lambda test: run(test()))
async def test_waiting_on_a_partition_that_is_not_read_fails_at_once() -> None:
    with pytest.raises(RemoteStorageError, match="not read here"):
        await MetadataPartition(3).wait_applied(0, b"")


@run_with(lambda test: run(test()))
async def test_who_gave_up_waiting_leaves_nothing_behind() -> None:
    partition = assigned()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await partition.wait_applied(0, b"")
    partition.apply(batch(SEGMENT))
    assert partition._waiters == []


@run_with(lambda test: run(test()))
async def test_an_event_that_another_one_replaced_is_not_taken_for_applied() -> None:
    partition = assigned()
    with partition.publishing():
        # Stored by a leader that was replaced; the next one lacks it and stored something else at its offset.
        partition.apply(batch(sample_segment(9, (0, 4))))
        with pytest.raises(NotReadyError, match="replaced by another one"):
            await partition.wait_applied(0, encode_event(SEGMENT))


def test_nothing_is_read_from_a_suspended_partition_until_its_place_is_confirmed() -> None:
    partition = assigned()
    partition.apply(EventBatch(0, batch(SEGMENT).records, 1, leader_epoch=4))
    partition.suspend()
    assert partition.readable is None
    partition.apply(EventBatch(0, [], 1, leader_epoch=4))
    assert known(partition) == [SEGMENT]
    assert (partition.next_offset, partition.leader_epoch) == (1, 4)


def test_the_epoch_of_the_last_event_is_captured_and_forgotten_with_its_history() -> None:
    partition = assigned()
    partition.apply(EventBatch(0, batch(SEGMENT).records, 1, leader_epoch=4))
    assert partition.capture().leader_epoch == 4
    # What comes again is older.
    partition.apply(EventBatch(0, [], 0, leader_epoch=3))
    assert partition.leader_epoch == 4
    partition.start_over()
    assert (partition.next_offset, partition.leader_epoch, partition.histories) == (0, -1, 1)
