"""When snapshots are written, and of what."""

from __future__ import annotations

import asyncio
import errno
import uuid

import pytest

from crabka.remote_topic.assignment import MetadataAssignment
from crabka.remote_topic.event_log import EventBatch, InProcessMetadataEventLog
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.snapshot import Snapshot, load_snapshot, snapshot_path
from crabka.remote_topic.snapshot_keeper import MetadataSnapshotKeeper
from crabka.runtime.task_scope import TaskScope
from crabka.testing import FaultRule, FaultyFileSystem
from crabka.testing.remote_samples import sample_segment
from tests.support.async_tests import run_with
from tests.support.tier_topic.manager import SNAPSHOTS, TOPIC_ID, TopicSimulation, simulate_topic

INTERVAL_MS = 60_000
LEADER_EPOCH = 7


class Kept:
    """A keeper over partitions that are filled by hand."""

    def __init__(self, simulation: TopicSimulation) -> None:
        self.fs = FaultyFileSystem(simulation.fs)
        runtime = type(simulation.runtime)(
            clock=simulation.runtime.clock,
            rng=simulation.runtime.rng,
            threads=simulation.runtime.threads,
            fs=self.fs,
            network=simulation.runtime.network,
        )
        self.assignment = MetadataAssignment(runtime, InProcessMetadataEventLog(simulation.topic), SNAPSHOTS)
        self.keeper = MetadataSnapshotKeeper(runtime, self.assignment, SNAPSHOTS, INTERVAL_MS)
        self.writes = self.fs.add(FaultRule(operation="rename", before=lambda *_: None))
        for partition in self.assignment.partitions:
            partition.assign()

    def apply(self, number: int, *offsets: int) -> None:
        records: list[tuple[int, bytes | None]] = [
            (offset, encode_event(sample_segment(offset + 1, (offset * 10, offset * 10 + 9)))) for offset in offsets
        ]
        self.assignment.deliver(EventBatch(number, records, offsets[-1] + 1, LEADER_EPOCH))

    def stored(self, number: int) -> Snapshot | None:
        count = len(self.assignment.partitions)
        return load_snapshot(self.fs, SNAPSHOTS, topic_id=TOPIC_ID, partition_count=count, partition=number)


@run_with(simulate_topic, partition_count=3)
async def test_each_partition_that_moved_on_is_written_and_no_other(simulation: TopicSimulation, /) -> None:
    kept = Kept(simulation)
    kept.apply(0, *range(1_000))
    kept.apply(1, 0)
    await kept.keeper.write_dirty()
    assert kept.writes.fired_count == 2
    # Little progress in a partition far behind another one counts all the same.
    kept.apply(1, 1)
    await kept.keeper.write_dirty()
    assert kept.writes.fired_count == 3
    snapshot = kept.stored(1)
    assert snapshot is not None
    # With the epoch of the last event: a start asks the leader whether it still has that one.
    assert (snapshot.next_offset, snapshot.leader_epoch) == (2, LEADER_EPOCH)
    assert len(snapshot.dump.partitions[0].segments) == 2
    await kept.keeper.write_dirty()
    assert kept.writes.fired_count == 3
    assert not simulation.fs.exists(snapshot_path(SNAPSHOTS, 2))


@run_with(simulate_topic, partition_count=3)
async def test_snapshots_are_written_in_time(simulation: TopicSimulation, /) -> None:
    kept = Kept(simulation)
    scope = TaskScope()
    scope.start(kept.keeper.run())
    kept.apply(0, 0)
    await asyncio.sleep(INTERVAL_MS / 1000 - 1)
    assert kept.writes.fired_count == 0
    await asyncio.sleep(2)
    assert kept.writes.fired_count == 1
    await asyncio.sleep(10 * INTERVAL_MS / 1000)
    assert kept.writes.fired_count == 1
    await scope.close()


@run_with(simulate_topic, partition_count=3)
async def test_a_disk_that_fails_is_reported_and_tried_again(
    simulation: TopicSimulation, /, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(simulation)
    kept.apply(0, 0)
    full = kept.fs.add(FaultRule(operation="pwritev", error=errno.ENOSPC))
    await kept.keeper.write_dirty()
    assert kept.stored(0) is None
    assert "was not written" in caplog.text
    kept.fs.remove(full)
    await kept.keeper.write_dirty()
    assert kept.stored(0) is not None


@run_with(simulate_topic, partition_count=3)
async def test_the_next_write_waits_for_one_whose_task_was_cancelled(simulation: TopicSimulation, /) -> None:
    kept = Kept(simulation)
    scope = TaskScope()
    kept.apply(0, 0)
    scope.start(kept.keeper.write_dirty())
    await asyncio.sleep(0)
    await scope.close()
    kept.apply(0, 1)
    await kept.keeper.write_dirty()
    snapshot = kept.stored(0)
    assert snapshot is not None
    assert snapshot.next_offset == 2


@run_with(simulate_topic, partition_count=3)
async def test_what_was_known_of_a_replaced_topic_is_not_written_in_the_name_of_the_new_one(
    simulation: TopicSimulation, /
) -> None:
    kept = Kept(simulation)
    kept.apply(0, 0)
    kept.apply(1, 0)
    writing = asyncio.ensure_future(kept.keeper.write_dirty())
    await asyncio.sleep(0)
    simulation.topic.topic_id = uuid.UUID(int=5)
    kept.assignment.start_over([0, 1, 2])
    await writing
    assert not simulation.fs.exists(snapshot_path(SNAPSHOTS, 1))
