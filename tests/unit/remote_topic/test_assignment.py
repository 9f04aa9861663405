"""Which metadata partitions are read, from where on, and when they are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from crabka.clients.errors import ClientNetworkError
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.assignment import MetadataAssignment
from crabka.remote_topic.event_log import EventBatch, InProcessMetadataEventLog, InProcessMetadataTopic
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.snapshot import load_snapshot, write_snapshot
from crabka.remote_topic.snapshot_keeper import MetadataSnapshotKeeper
from crabka.runtime.task_scope import TaskScope
from crabka.testing.remote_samples import sample_segment
from tests.support.async_tests import run_with
from tests.support.tier_topic.events import partition_named
from tests.support.tier_topic.manager import SNAPSHOTS, TOPIC_ID, TopicSimulation, simulate_topic, until

COUNT = 5
PARTITIONS = [partition_named("t", index) for index in range(40)]


class WatchedLog(InProcessMetadataEventLog):
    """Notes what is asked of it, and does not know the end of some partitions."""

    def __init__(self, topic: InProcessMetadataTopic) -> None:
        super().__init__(topic)
        self.consumed: list[tuple[int, int]] = []
        self.stopped: list[int] = []
        self.unknown_ends: set[int] = set()
        self.is_down = False

    def consume(self, partition: int, offset: int, leader_epoch: int = -1) -> None:
        self.consumed.append((partition, offset))
        super().consume(partition, offset, leader_epoch)

    def stop(self, partition: int) -> None:
        self.stopped.append(partition)
        super().stop(partition)

    async def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        if self.is_down:
            raise ClientNetworkError("nobody answers")
        ends = await super().end_offsets(partitions)
        return {partition: end for partition, end in ends.items() if partition not in self.unknown_ends}


class Running:
    """An assignment whose task runs."""

    def __init__(self, simulation: TopicSimulation) -> None:
        self.log = WatchedLog(simulation.topic)
        self.assignment = MetadataAssignment(simulation.runtime, self.log, SNAPSHOTS)
        self._scope = TaskScope()

    async def __aenter__(self) -> Running:
        self.log.start(self.assignment)
        self._scope.start(self.assignment.run())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._scope.close()
        await self.log.close()

    def ready(self) -> set[int]:
        return {partition.number for partition in self.assignment.partitions if partition.readable is not None}


def number_of(partition: TopicIdPartition) -> int:
    return metadata_partition_for(partition, COUNT)


def hosting(number: int) -> TopicIdPartition:
    return next(partition for partition in PARTITIONS if number_of(partition) == number)


def store(topic: InProcessMetadataTopic, number: int, count: int) -> None:
    """Put events of a partition that belongs there into a metadata partition."""
    for index in range(count):
        start = len(topic.values[number]) * 10
        segment = sample_segment(start + index + 1, (start, start + 9), partition=hosting(number))
        topic.append(number, encode_event(segment))


@run_with(simulate_topic, partition_count=COUNT)
async def test_partitions_of_hosted_and_own_ones_are_read_and_no_others(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        running.assignment.host([hosting(1), hosting(2)])
        running.assignment.set_own([4, 99])
        assert running.assignment.wanted == {1, 2, 4}
        await until(lambda: running.ready() == {1, 2, 4})
        running.assignment.unhost([hosting(1)])
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        assert sorted(running.log.stopped) == [1, 4]
        running.assignment.unhost([hosting(2)])
        await asyncio.sleep(1)
        assert running.ready() == {2}
        assert running.assignment.own == {2}


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_partition_that_is_assigned_again_goes_on_at_what_was_applied(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        store(simulation.topic, 3, 7)
        running.assignment.host([hosting(3)])
        await until(lambda: running.ready() == {3})
        running.assignment.unhost([hosting(3)])
        await until(lambda: not running.ready())
        store(simulation.topic, 3, 2)
        running.assignment.host([hosting(3)])
        await until(lambda: running.ready() == {3})
        assert running.log.consumed == [(3, 0), (3, 7)]
        assert running.assignment.partitions[3].next_offset == 9
        assert running.assignment.partitions[3].counts.applied == 9


@run_with(simulate_topic, partition_count=COUNT)
async def test_not_ready_before_what_the_log_had_at_the_assignment_is_applied(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        store(simulation.topic, 0, 3)
        running.log.is_delivering = False
        running.assignment.host([hosting(0)])
        await until(lambda: running.assignment.partitions[0].target == 3)
        await asyncio.sleep(60)
        assert running.ready() == set()
        running.log.is_delivering = True
        await until(lambda: running.ready() == {0})
        assert running.assignment.partitions[0].counts.applied == 3


@run_with(simulate_topic, partition_count=COUNT)
async def test_an_end_that_is_not_known_delays_only_its_own_partition(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        running.log.unknown_ends = {1}
        running.assignment.set_own([0, 1])
        await until(lambda: running.ready() == {0})
        await asyncio.sleep(60)
        assert running.ready() == {0}
        running.log.unknown_ends = set()
        await until(lambda: running.ready() == {0, 1})


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_log_that_is_down_is_asked_again_until_it_answers(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        running.log.is_down = True
        running.assignment.set_own([0])
        await asyncio.sleep(600)
        assert running.ready() == set()
        running.log.is_down = False
        await until(lambda: running.ready() == {0})


@run_with(simulate_topic, partition_count=3)
async def test_the_count_of_the_topic_decides_which_partitions_are_read(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        running.assignment.host(PARTITIONS)
        assert running.assignment.wanted == {metadata_partition_for(partition, 3) for partition in PARTITIONS}
        assert len(running.assignment.partitions) == 3


# The settings of the simulation say 50.


async def snapshot_of(running: Running, simulation: TopicSimulation) -> None:
    keeper = MetadataSnapshotKeeper(simulation.runtime, running.assignment, SNAPSHOTS, 60_000)
    await keeper.write_dirty()


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_snapshot_spares_the_events_before_it(simulation: TopicSimulation, /) -> None:
    store(simulation.topic, 2, 6)
    async with Running(simulation) as running:
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        await snapshot_of(running, simulation)
        before = running.assignment.partitions[2].capture().dump
    async with Running(simulation) as running:
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        assert running.log.consumed == [(2, 6)]
        assert running.assignment.partitions[2].capture().dump == before


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_snapshot_of_a_topic_that_was_created_anew_is_not_believed(simulation: TopicSimulation, /) -> None:
    store(simulation.topic, 2, 6)
    async with Running(simulation) as running:
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        await snapshot_of(running, simulation)
    simulation.topic.topic_id = partition_named("another").topic_id
    simulation.topic.values[2].clear()
    async with Running(simulation) as running:
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        assert running.log.consumed == [(2, 0)]
        assert running.assignment.partitions[2].capture().dump.partitions == ()


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_snapshot_ahead_of_the_log_is_dropped(
    simulation: TopicSimulation, /, caplog: pytest.LogCaptureFixture
) -> None:
    store(simulation.topic, 2, 6)
    async with Running(simulation) as running:
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        await snapshot_of(running, simulation)
    snapshot = load_snapshot(simulation.fs, SNAPSHOTS, topic_id=TOPIC_ID, partition_count=COUNT, partition=2)
    assert snapshot is not None
    write_snapshot(simulation.fs, SNAPSHOTS, replace(snapshot, next_offset=8))
    del simulation.topic.values[2][4:]
    async with Running(simulation) as running:
        running.assignment.set_own([2])
        await until(lambda: running.ready() == {2})
        assert running.log.consumed == [(2, 8), (2, 0)]
        assert running.assignment.partitions[2].next_offset == 4
    assert "lost events" in caplog.text


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_partition_whose_history_changed_is_read_from_the_start_and_not_ready_before(
    simulation: TopicSimulation, /
) -> None:
    async with Running(simulation) as running:
        store(simulation.topic, 1, 5)
        running.assignment.set_own([1])
        await until(lambda: running.ready() == {1})
        del simulation.topic.values[1][2:]
        running.log.is_delivering = False
        running.assignment.start_over([1])
        running.log.consume(1, 0)
        assert running.ready() == set()
        await asyncio.sleep(10)
        assert running.ready() == set()
        running.log.is_delivering = True
        await until(lambda: running.ready() == {1})
        assert running.assignment.partitions[1].next_offset == 2


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_topic_that_was_replaced_is_read_anew_with_its_own_count(
    simulation: TopicSimulation, /, caplog: pytest.LogCaptureFixture
) -> None:
    async with Running(simulation) as running:
        store(simulation.topic, 1, 5)
        running.assignment.host([hosting(1)])
        await until(lambda: running.ready() == {1})
        simulation.topic.topic_id = partition_named("another").topic_id
        simulation.topic.values[:] = [[] for _ in range(2)]
        running.assignment.start_over(range(2))
        assert running.ready() == set()
        number = metadata_partition_for(hosting(1), 2)
        await until(lambda: running.ready() == {number})
        assert running.assignment.partitions[number].capture().dump.partitions == ()
    assert "was replaced" in caplog.text


@run_with(simulate_topic, partition_count=COUNT)
async def test_events_of_a_partition_that_is_not_read_any_more_are_dropped(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        running.assignment.set_own([1])
        await until(lambda: running.ready() == {1})
        running.assignment.set_own([])
        await until(lambda: not running.ready())
        running.log.consume(1, 0)
        store(simulation.topic, 1, 1)
        await asyncio.sleep(1)
        assert running.assignment.partitions[1].next_offset == 0


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_target_that_the_log_does_not_reach_any_more_is_lowered(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        store(simulation.topic, 1, 5)
        running.log.is_delivering = False
        running.assignment.set_own([1])
        await until(lambda: running.assignment.partitions[1].target == 5)
        # An unclean election, before any of this was read: nothing contradicts what is known.
        del simulation.topic.values[1][2:]
        running.log.is_delivering = True
        await until(lambda: running.ready() == {1})
        assert running.assignment.partitions[1].target == 2
        # A log that grows meanwhile does not put it off.
        running.assignment.partitions[1].aim(9)
        assert running.assignment.partitions[1].target == 2


@run_with(simulate_topic, partition_count=COUNT)
async def test_a_suspended_partition_is_not_ready_and_its_users_are_notified(simulation: TopicSimulation, /) -> None:
    async with Running(simulation) as running:
        doubts: list[set[int]] = []
        running.assignment.on_doubt = lambda: doubts.append(running.ready())
        store(simulation.topic, 1, 2)
        running.assignment.set_own([1, 2])
        await until(lambda: running.ready() == {1, 2})
        running.assignment.suspend([1])
        assert running.ready() == {2}
        running.assignment.deliver(EventBatch(1, [], 2))
        assert running.ready() == {1, 2}
        running.assignment.start_over([1])
        assert doubts == [{2}, {2}]
