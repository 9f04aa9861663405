"""The topic-based manager: changes that are read back, reads that are never wrong, several brokers, threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from crabka.errors import InvariantError, OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.errors import (
    InvalidAddError,
    InvalidPartitionDeleteTransitionError,
    InvalidSegmentTransitionError,
    NotReadyError,
    RemoteBackendError,
)
from crabka.remote.segments import CustomMetadata, RemotePartitionDeleteState
from crabka.remote_topic.event_log import InProcessMetadataEventLog
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import decode_event, encode_event
from crabka.remote_topic.settings import RemoteTopicSettings
from crabka.remote_topic.snapshot import snapshot_path
from crabka.testing.remote_samples import in_state, sample_partition_delete, sample_segment, sample_update
from tests.support.async_tests import run_with
from tests.support.tier_topic.events import (
    DELETE_FINISHED,
    DELETE_STARTED,
    FINISHED,
    STARTED,
    golden_event_values,
    golden_segments,
    partition_named,
)
from tests.support.tier_topic.manager import (
    HASTY,
    SNAPSHOTS,
    TopicSimulation,
    host_and_wait,
    manager_in_thread,
    simulate_topic,
    until,
)

PARTITION = partition_named("t", 3)
OTHER = partition_named("u", 1)
COUNT = 5
NUMBER = metadata_partition_for(PARTITION, COUNT)
SEGMENT = sample_segment(1, (0, 99), partition=PARTITION)
MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
DELETING = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
DELETED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

Reads = dict[str, Callable[[TopicBasedRemoteLogMetadataManager], object]]
READS: Reads = {
    "find": lambda manager: manager.remote_log_segment_metadata(PARTITION, 0, 50),
    "highest_offset": lambda manager: manager.highest_offset_for_epoch(PARTITION, 0),
    "list": lambda manager: list(manager.list_remote_log_segments(PARTITION)),
    "list_of_epoch": lambda manager: list(manager.list_remote_log_segments(PARTITION, 0)),
    "size": lambda manager: manager.remote_log_size(PARTITION, 0),
    "txn_index": lambda manager: manager.next_segment_with_txn_index(PARTITION, 0, 0),
    "partition_delete": lambda manager: manager.partition_delete_metadata(PARTITION),
}


async def copy(manager: TopicBasedRemoteLogMetadataManager, number: int, start: int = 0) -> None:
    segment = sample_segment(number, (start, start + 99), partition=PARTITION)
    await manager.add_segment(segment)
    await manager.update_segment(sample_update(segment, FINISHED))


# -- changes -----------------------------------------------------------------------------------------------------


@run_with(simulate_topic)
async def test_a_change_is_visible_here_when_its_call_returns(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    await manager.add_segment(SEGMENT)
    assert list(manager.list_remote_log_segments(PARTITION)) == [SEGMENT]
    assert manager.remote_log_segment_metadata(PARTITION, 0, 5) is None
    custom = CustomMetadata(b"there")
    update = sample_update(SEGMENT, FINISHED, custom_metadata=custom)
    await manager.update_segment(update)
    assert manager.remote_log_segment_metadata(PARTITION, 0, 5) == SEGMENT.with_update(update)
    assert manager.highest_offset_for_epoch(PARTITION, 0) == 99
    assert manager.remote_log_size(PARTITION, 0) == 1_000


@run_with(simulate_topic)
async def test_a_change_is_visible_to_every_broker_that_reads_the_partition(simulation: TopicSimulation, /) -> None:
    leader, follower = await simulation.start(PARTITION), await simulation.start(PARTITION)
    await copy(leader, 1)
    await until(lambda: follower.highest_offset_for_epoch(PARTITION, 0) == 99)
    assert READS["list"](follower) == READS["list"](leader)


@run_with(simulate_topic)
async def test_catching_up_is_to_know_all_that_others_had_stored(simulation: TopicSimulation, /) -> None:
    leader, follower = await simulation.start(PARTITION), await simulation.start(PARTITION)
    simulation.log.is_delivering = False
    await copy(leader, 1)
    catching_up = asyncio.ensure_future(follower.catch_up(PARTITION))
    await asyncio.sleep(0.1)
    assert not catching_up.done()
    assert READS["list"](follower) == []
    simulation.log.is_delivering = True
    await catching_up
    assert READS["list"](follower) == READS["list"](leader)
    await follower.catch_up(PARTITION)


@run_with(simulate_topic)
async def test_catching_up_fails_in_time_and_where_the_partition_is_not_read(simulation: TopicSimulation, /) -> None:
    leader, follower = await simulation.start(PARTITION), await simulation.start(PARTITION)
    simulation.log.is_delivering = False
    await copy(leader, 1)
    with pytest.raises(RemoteBackendError, match="not read within 2000 ms"):
        await follower.catch_up(PARTITION)
    follower.on_stop_partitions([PARTITION])
    await asyncio.sleep(0.1)
    with pytest.raises(NotReadyError):
        await follower.catch_up(PARTITION)


@run_with(simulate_topic)
async def test_a_log_that_ends_before_what_was_read_is_not_caught_up_with(
    simulation: TopicSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader lacks events that were read from another one: what is known here may be void."""

    manager = await simulation.start(PARTITION)
    await copy(manager, 1)

    async def shorter(_log: object, partitions: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 1)

    with monkeypatch.context() as patch:
        patch.setattr(InProcessMetadataEventLog, "end_offsets", shorter)
        with pytest.raises(NotReadyError, match="lost events"):
            await manager.catch_up(PARTITION)
    await manager.catch_up(PARTITION)


@run_with(simulate_topic)
async def test_a_change_that_is_not_read_back_in_time_fails_and_does_not_hang(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    simulation.log.is_delivering = False
    began = asyncio.get_running_loop().time()
    with pytest.raises(RemoteBackendError, match="not read back within 2000 ms") as caught:
        await manager.add_segment(SEGMENT)
    assert caught.value.retriable
    assert asyncio.get_running_loop().time() - began == pytest.approx(HASTY.consume_wait_ms / 1000)
    # The event is in the log; trying again finds that out.
    simulation.log.is_delivering = True
    await manager.add_segment(SEGMENT)
    assert READS["list"](manager) == [SEGMENT]


@run_with(simulate_topic)
async def test_a_change_of_a_partition_that_is_not_read_here_fails_at_once(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start()
    began = asyncio.get_running_loop().time()
    with pytest.raises(NotReadyError):
        await manager.add_segment(SEGMENT)
    assert asyncio.get_running_loop().time() == began
    assert simulation.topic.values[NUMBER] == []


@run_with(simulate_topic)
async def test_a_change_fails_when_its_partition_is_taken_away_meanwhile(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    simulation.log.is_delivering = False
    change = asyncio.ensure_future(manager.add_segment(SEGMENT))
    await asyncio.sleep(0.1)
    manager.on_stop_partitions([PARTITION])
    with pytest.raises(NotReadyError):
        await change


@run_with(simulate_topic)
async def test_a_refused_change_is_an_error_to_who_asked_for_it(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    with pytest.raises(InvalidSegmentTransitionError):
        await manager.update_segment(sample_update(SEGMENT, FINISHED))
    await manager.add_segment(SEGMENT)
    with pytest.raises(InvalidAddError):
        await manager.add_segment(replace(SEGMENT, end_offset=70))
    with pytest.raises(InvalidSegmentTransitionError) as caught:
        await manager.update_segment(sample_update(SEGMENT, DELETE_FINISHED))
    assert (caught.value.source, caught.value.target) == (STARTED, DELETE_FINISHED)
    with pytest.raises(InvalidPartitionDeleteTransitionError):
        await manager.put_partition_delete(sample_partition_delete(DELETED, partition=PARTITION))
    assert READS["list"](manager) == [SEGMENT]
    assert manager.status().events_refused == 4


@run_with(simulate_topic)
async def test_refusals_reach_the_right_one_of_many_at_once(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    segments = [sample_segment(number, (0, 99), partition=PARTITION) for number in range(1, 21)]
    await asyncio.gather(*(manager.add_segment(segment) for segment in segments))
    states = [FINISHED, DELETE_FINISHED]
    changes = [manager.update_segment(sample_update(s, states[i % 2])) for i, s in enumerate(segments)]
    results = await asyncio.gather(*changes, return_exceptions=True)
    assert [type(result) for result in results[::2]] == [type(None)] * 10
    assert [type(result) for result in results[1::2]] == [InvalidSegmentTransitionError] * 10


@run_with(simulate_topic)
async def test_the_order_of_the_log_decides_between_two_brokers(simulation: TopicSimulation, /) -> None:
    old_leader, new_leader = await simulation.start(PARTITION), await simulation.start(PARTITION)
    await old_leader.add_segment(SEGMENT)
    simulation.logs[0].is_delivering = False
    await until(lambda: READS["list"](new_leader) == [SEGMENT])
    # The new leader clears up what the old one left, which does not know yet and finishes its copy.
    await new_leader.update_segment(sample_update(SEGMENT, DELETE_STARTED, broker_id=2))
    late = asyncio.ensure_future(old_leader.update_segment(sample_update(SEGMENT, FINISHED)))
    await asyncio.sleep(0.1)
    simulation.logs[0].is_delivering = True
    with pytest.raises(InvalidSegmentTransitionError):
        await late
    for manager in (old_leader, new_leader):
        assert [segment.state for segment in manager.list_remote_log_segments(PARTITION)] == [DELETE_STARTED]


@run_with(simulate_topic)
async def test_a_segment_that_can_never_be_added_is_not_published(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    with pytest.raises(InvalidAddError):
        await manager.add_segment(in_state(SEGMENT, FINISHED))
    assert simulation.topic.values[NUMBER] == []


class RefusingLog(InProcessMetadataEventLog):
    """Does not take events."""

    async def publish(self, partition: int, value: bytes) -> int:
        raise OperationError(ErrorCode.not_enough_replicas, "too few")


@run_with(simulate_topic)
async def test_a_change_that_cannot_be_published_may_be_tried_again(simulation: TopicSimulation, /) -> None:
    manager = TopicBasedRemoteLogMetadataManager(simulation.runtime, RefusingLog(simulation.topic), SNAPSHOTS, HASTY)
    simulation.managers.append(manager)
    manager.on_partition_leadership_changes([PARTITION], [])
    await manager.start()
    await until(lambda: manager.is_ready(PARTITION))
    with pytest.raises(RemoteBackendError, match="was not published: too few"):
        await manager.add_segment(SEGMENT)


# -- reads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", READS)
@run_with(simulate_topic)
async def test_every_read_is_refused_while_the_partition_is_not_assigned_or_behind(
    simulation: TopicSimulation, /, read: str
) -> None:
    await copy(await simulation.start(PARTITION), 1)
    manager = await simulation.start()
    with pytest.raises(NotReadyError):
        READS[read](manager)
    simulation.log.is_delivering = False
    manager.on_partition_leadership_changes([], [PARTITION])
    await asyncio.sleep(60)
    assert not manager.is_ready(PARTITION)
    with pytest.raises(NotReadyError):
        READS[read](manager)
    simulation.log.is_delivering = True
    await until(lambda: manager.is_ready(PARTITION))
    READS[read](manager)
    # What is known stays in memory, but it would be stale.
    manager.on_stop_partitions([PARTITION])
    await until(lambda: not manager.is_ready(PARTITION))
    with pytest.raises(NotReadyError):
        READS[read](manager)


@pytest.mark.parametrize("read", READS)
@run_with(simulate_topic)
async def test_every_read_is_empty_when_the_log_really_has_nothing(simulation: TopicSimulation, /, read: str) -> None:
    manager = await simulation.start(PARTITION)
    assert not READS[read](manager)


@run_with(simulate_topic)
async def test_segments_that_were_deleted_do_not_appear_again_when_a_partition_comes_back(
    simulation: TopicSimulation, /
) -> None:
    manager = await simulation.start(PARTITION)
    await copy(manager, 1)
    await simulation.managers[0]._snapshots.write_dirty()
    await manager.update_segment(sample_update(SEGMENT, DELETE_STARTED))
    await manager.update_segment(sample_update(SEGMENT, DELETE_FINISHED))
    seen: list[object] = []
    manager.on_stop_partitions([PARTITION])
    await until(lambda: not manager.is_ready(PARTITION))
    manager.on_partition_leadership_changes([PARTITION], [])
    while not manager.is_ready(PARTITION):
        seen.append(manager._assignment.partitions[NUMBER].capture().dump.partitions[0].segments)
        await asyncio.sleep(0)
    assert set(seen) <= {()}
    assert READS["list"](manager) == []
    assert manager.highest_offset_for_epoch(PARTITION, 0) == 99


@run_with(simulate_topic, partition_count=7)
async def test_the_count_of_the_topic_is_used_for_reads_and_changes(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    await copy(manager, 1)
    number = metadata_partition_for(PARTITION, 7)
    assert number != metadata_partition_for(PARTITION, RemoteTopicSettings().num_partitions)
    assert [index for index, values in enumerate(simulation.topic.values) if values] == [number]


@run_with(simulate_topic, partition_count=COUNT)
async def test_the_leader_of_a_metadata_partition_finds_partitions_without_a_host(
    simulation: TopicSimulation, /
) -> None:
    leader = await simulation.start(PARTITION, OTHER)
    await copy(leader, 1)
    await leader.put_partition_delete(sample_partition_delete(MARKED, partition=PARTITION))
    owner = await simulation.start(own=[NUMBER])
    await until(lambda: owner.is_ready(PARTITION))
    assert owner.partitions_of_own() == [PARTITION]
    assert owner.partition_delete_metadata(PARTITION) == sample_partition_delete(MARKED, partition=PARTITION)
    (segment,) = owner.list_remote_log_segments(PARTITION)
    await owner.put_partition_delete(sample_partition_delete(DELETING, partition=PARTITION))
    await owner.update_segment(sample_update(segment, DELETE_STARTED))
    await owner.update_segment(sample_update(segment, DELETE_FINISHED))
    await owner.put_partition_delete(sample_partition_delete(DELETED, partition=PARTITION))
    assert owner.partitions_of_own() == []
    assert leader.partitions_of_own() == []


@run_with(simulate_topic, partition_count=3)
async def test_events_of_kafka_are_understood(simulation: TopicSimulation, /) -> None:
    for number, records in golden_event_values("single").items():
        for _, value in records:
            simulation.topic.append(number, value)
    hosted = {decode_event(v).topic_id_partition for values in simulation.topic.values for v in values if v}
    manager = await simulation.start(*hosted)
    expected = {row["segment_id"]: row for row in golden_segments("single")}
    readable = [row for row in expected.values() if row["state"] == "COPY_SEGMENT_FINISHED"]
    listed = [segment for partition in hosted for segment in manager.list_remote_log_segments(partition)]
    assert len(listed) == len(readable)
    for segment in listed:
        epoch, offset = segment.leader_epochs[-1]
        assert manager.remote_log_segment_metadata(segment.topic_id_partition, epoch, offset) == segment
    assert manager.status().events_refused == manager.status().records_poisonous == 0


@run_with(simulate_topic, partition_count=COUNT)
async def test_poison_is_counted_and_what_follows_is_read(simulation: TopicSimulation, /) -> None:
    simulation.topic.append(NUMBER, b"\x01\x03\x00snapshot")
    simulation.topic.append(NUMBER, encode_event(SEGMENT)[:-9])
    manager = await simulation.start(PARTITION)
    await copy(manager, 1)
    simulation.topic.append(NUMBER, None)
    await copy(manager, 2, 100)
    assert manager.status().records_poisonous == 3
    assert manager.status().events_applied == 4
    assert manager.highest_offset_for_epoch(PARTITION, 0) == 199


# -- stopping and starting ---------------------------------------------------------------------------------------


@run_with(simulate_topic, partition_count=COUNT)
async def test_all_that_was_read_before_the_stop_is_in_the_snapshots(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION, OTHER)
    await copy(manager, 1)
    await manager.put_partition_delete(sample_partition_delete(MARKED, partition=OTHER))
    await manager.stop()
    with pytest.raises(NotReadyError):
        READS["list"](manager)
    again = await simulation.start(PARTITION, OTHER)
    assert again.status().events_applied == 0
    assert again.remote_log_segment_metadata(PARTITION, 0, 0) == in_state(SEGMENT, FINISHED)
    # With the time and the broker of the event itself.
    assert again.partition_delete_metadata(OTHER) == sample_partition_delete(MARKED, partition=OTHER)
    await manager.stop()


@run_with(simulate_topic)
async def test_a_stop_ends_what_waits(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    simulation.log.is_delivering = False
    change = asyncio.ensure_future(manager.add_segment(SEGMENT))
    await asyncio.sleep(0.1)
    await manager.stop()
    with pytest.raises(NotReadyError):
        await change


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_broken_snapshot_costs_time_and_nothing_else(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    await copy(manager, 1)
    await copy(manager, 2, 100)
    listed = READS["list"](manager)
    await manager.stop()
    file = simulation.fs.open(snapshot_path(SNAPSHOTS, NUMBER))
    file.pwritev([b"\xff"], 90)
    file.close()
    again = await simulation.start(PARTITION)
    assert again.status().events_applied == 4
    assert READS["list"](again) == listed


# -- threads -----------------------------------------------------------------------------------------------------


@run_with(simulate_topic)
async def test_the_loop_is_kept_from_waiting_for_itself(simulation: TopicSimulation, /) -> None:
    manager = await simulation.start(PARTITION)
    with pytest.raises(InvariantError, match="must not block on itself"):
        manager.add_remote_log_segment_metadata(SEGMENT)


@run_with(simulate_topic)
async def test_a_manager_that_does_not_run_refuses_threads(simulation: TopicSimulation, /) -> None:
    log = InProcessMetadataEventLog(simulation.topic)
    manager = TopicBasedRemoteLogMetadataManager(simulation.runtime, log, SNAPSHOTS)
    with pytest.raises(NotReadyError, match="not running"):
        manager.update_remote_log_segment_metadata(sample_update(SEGMENT, FINISHED))


def test_threads_wait_for_their_changes_and_read_at_once() -> None:
    with manager_in_thread() as manager:
        host_and_wait(manager, PARTITION, OTHER)
        manager.add_remote_log_segment_metadata(SEGMENT)
        assert READS["list"](manager) == [SEGMENT]
        manager.update_remote_log_segment_metadata(sample_update(SEGMENT, FINISHED))
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 99
        with pytest.raises(InvalidSegmentTransitionError):
            manager.update_remote_log_segment_metadata(sample_update(SEGMENT, DELETE_FINISHED))
        manager.put_remote_partition_delete_metadata(sample_partition_delete(MARKED, partition=OTHER))
        assert manager.partition_delete_metadata(OTHER) is not None
        manager.on_stop_partitions([PARTITION])
        manager.set_own_metadata_partitions([NUMBER])
        host_and_wait(manager)
        manager.close()
        assert not manager.is_ready(PARTITION)


def test_changes_of_many_threads_all_arrive() -> None:
    with manager_in_thread() as manager:
        host_and_wait(manager, PARTITION)

        def copy_segments(first: int) -> None:
            for number in range(first, first + 20):
                segment = sample_segment(number, (number * 10, number * 10 + 9), partition=PARTITION)
                manager.add_remote_log_segment_metadata(segment)
                manager.update_remote_log_segment_metadata(sample_update(segment, FINISHED))
                assert manager.remote_log_segment_metadata(PARTITION, 0, number * 10) is not None

        threads = [threading.Thread(target=copy_segments, args=(first,)) for first in (100, 200, 300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(list(manager.list_remote_log_segments(PARTITION))) == 60
        assert manager.remote_log_size(PARTITION, 0) == 60_000


def test_a_stopped_loop_refuses_threads() -> None:
    with manager_in_thread() as manager:
        pass
    with pytest.raises(NotReadyError, match="not running"):
        manager.add_remote_log_segment_metadata(SEGMENT)
    manager.on_stop_partitions([PARTITION])
