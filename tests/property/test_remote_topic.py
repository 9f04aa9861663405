"""Whatever happens to a manager, what it knows is what the events of the log up to its offset amount to."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from crabka.ports import Runtime
from crabka.remote.errors import RemoteStorageError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager, PartitionDump, RlmmCacheDump
from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from crabka.remote_topic.event_log import InProcessMetadataEventLog, InProcessMetadataTopic
from crabka.remote_topic.event_reader import MetadataEvent, MetadataEventError
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import decode_event, encode_event
from crabka.remote_topic.snapshot import load_snapshot
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from crabka.testing.remote_samples import sample_partition_delete, sample_segment, sample_update
from tests.support.async_tests import run_with, virtual_time
from tests.support.tier_topic.events import partition_named
from tests.support.tier_topic.manager import HASTY, SNAPSHOTS, TOPIC_ID, until

COUNT = 2
PARTITIONS = [partition_named("t", index) for index in range(4)]
STATES = list(RemoteLogSegmentState)
DELETE_STATES = list(RemotePartitionDeleteState)

SEGMENT_STEPS = st.tuples(
    st.just("segment"), st.integers(0, 3), st.integers(1, 4), st.sampled_from([*STATES, *STATES[1:]])
)
DELETE_STEPS = st.tuples(st.just("delete"), st.integers(0, 3), st.sampled_from(DELETE_STATES))
OTHER_STEPS = st.sampled_from(
    [("poison",), ("snapshot",), ("crash",), ("restart",), ("unhost",), ("host",), ("silence",), ("talk",)]
)
STEPS = st.lists(SEGMENT_STEPS | SEGMENT_STEPS | DELETE_STEPS | OTHER_STEPS, max_size=60)


def amount_of(values: list[bytes | None]) -> RlmmCacheDump:
    """Return what events amount to, one after the other."""
    view = InmemoryRemoteLogMetadataManager()
    for value in values:
        try:
            apply(view, decode_event(value or b""))
        except (MetadataEventError, RemoteStorageError):
            continue
    return view.dump()


def apply(view: InmemoryRemoteLogMetadataManager, event: MetadataEvent) -> None:
    match event:
        case RemoteLogSegmentMetadata():
            view.add_remote_log_segment_metadata(event)
        case RemoteLogSegmentMetadataUpdate():
            view.update_remote_log_segment_metadata(event)
        case _:
            view.put_remote_partition_delete_metadata(event)


class TopicWorld:
    """A topic, a disk, and one manager that is used and mistreated."""

    def __init__(self, loop: VirtualTimeLoop, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = loop
        self.fs = MemoryFileSystem()
        self.topic = InProcessMetadataTopic(COUNT, TOPIC_ID)
        self.runtime: Runtime
        self.log: InProcessMetadataEventLog
        self.manager: TopicBasedRemoteLogMetadataManager

    async def start(self) -> None:
        host = SimulatedNetwork(self.loop, self.rng).host("node")
        self.runtime = simulated_runtime(self.loop, self.rng, host, self.fs)
        self.log = InProcessMetadataEventLog(self.topic)
        self.manager = TopicBasedRemoteLogMetadataManager(self.runtime, self.log, SNAPSHOTS, HASTY)
        await self.manager.start()
        self.host()

    def host(self) -> None:
        self.manager.on_partition_leadership_changes(PARTITIONS, ())

    async def crash(self) -> None:
        assert isinstance(self.runtime.threads, InlineThreads)
        self.runtime.threads.kill()
        await self.manager._scope.close()
        await self.log.close()
        self.fs.crash(self.rng)

    async def step(self, step: tuple[object, ...]) -> None:
        match step:
            case ("segment", int(index), int(number), RemoteLogSegmentState() as state):
                self.store(self.segment_event(index, number, state))
            case ("delete", int(index), RemotePartitionDeleteState() as state):
                self.store(sample_partition_delete(state, partition=PARTITIONS[index]))
            case ("poison",):
                self.topic.append(self.rng.randrange(COUNT), self.rng.choice([None, b"", b"\x01\x00\x00junk"]))
            case ("snapshot",):
                await self.manager._snapshots.write_dirty()
            case ("crash",):
                await self.crash()
                await self.start()
            case ("restart",):
                await self.manager.stop()
                await self.start()
            case ("unhost",):
                self.manager.on_stop_partitions(PARTITIONS)
            case ("host",):
                self.host()
            case ("silence",):
                self.log.is_delivering = False
            case ("talk",):
                self.log.is_delivering = True
        await asyncio.sleep(self.rng.choice([0, 0, 0.001, 0.5]))
        self.check()

    def segment_event(self, index: int, number: int, state: RemoteLogSegmentState) -> MetadataEvent:
        start = self.rng.randrange(5) * 50
        segment = sample_segment(number, (start, start + 99), {0: start, 1: start + 60}, partition=PARTITIONS[index])
        if state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            return segment
        update = sample_update(segment, state, broker_id=self.rng.randrange(3))
        return replace(update, custom_metadata=self.rng.choice([None, CustomMetadata(b"c")]))

    def store(self, event: MetadataEvent) -> None:
        self.topic.append(metadata_partition_for(event.topic_id_partition, COUNT), encode_event(event))

    def check(self) -> None:
        for number, partition in enumerate(self.manager._assignment.partitions):
            values = self.topic.values[number]
            if partition.is_loaded:
                assert sort(partition.capture().dump) == sort(amount_of(values[: partition.next_offset]))
            snapshot = load_snapshot(self.fs, SNAPSHOTS, topic_id=TOPIC_ID, partition_count=COUNT, partition=number)
            if snapshot is not None:
                assert sort(snapshot.dump) == sort(amount_of(values[: snapshot.next_offset]))

    async def finish(self) -> None:
        self.log.is_delivering = True
        self.host()
        await until(lambda: all(self.manager.is_ready(partition) for partition in PARTITIONS))
        await asyncio.sleep(1)
        for number, partition in enumerate(self.manager._assignment.partitions):
            if partition.is_assigned:
                assert partition.next_offset == len(self.topic.values[number])
        self.check()
        await self.manager.stop()
        self.check()


def sort(dump: RlmmCacheDump) -> list[PartitionDump]:
    """Partitions have no order; their segments have one, which is compared."""
    return sorted(dump.partitions, key=lambda entry: entry.topic_id_partition.partition)


@given(STEPS, st.integers(0, 2**32))
@run_with(virtual_time)
async def test_a_manager_knows_what_the_log_says_through_crashes_and_snapshots(
    loop: VirtualTimeLoop, /, steps: list[tuple[object, ...]], seed: int
) -> None:
    world = TopicWorld(loop, seed)

    await world.start()
    for step in steps:
        await world.step(step)
    await world.finish()


@given(STEPS)
@run_with(virtual_time)
async def test_reading_the_whole_log_twice_changes_nothing(
    loop: VirtualTimeLoop, /, steps: list[tuple[object, ...]]
) -> None:
    world = TopicWorld(loop, 1)

    await world.start()
    for step in steps:
        if step[0] in {"segment", "delete", "poison"}:
            await world.step(step)
    await asyncio.sleep(1)
    before = [partition.capture() for partition in world.manager._assignment.partitions]
    for number in range(COUNT):
        world.log.consume(number, 0)
    await asyncio.sleep(1)
    assert [partition.capture() for partition in world.manager._assignment.partitions] == before
    await world.finish()
