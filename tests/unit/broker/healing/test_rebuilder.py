"""Replicas that begin anew: no other broker counts on them while their log is dropped."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from crabka.broker.healing.rebuilder import RebuildRefusedError, ReplicaRebuilder, is_out, rebuild_refusal
from crabka.broker.partition.partition import Partition
from crabka.ids import DIRECTORY_LOST, DirectoryId, TopicId, TopicPartition
from crabka.log.dirs.log_manager import LogManager
from crabka.metadata.topics import PartitionImage
from crabka.ports import Runtime
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.quorum.images import cluster, partition_of, topic_id_of, with_partition, with_partitions
from tests.support.storage.managers import CONFIG
from tests.support.storage.small import append, make_batch

NODE = 1
FENCE_MS = 9000
BASE = partition_of(with_partitions(cluster(1, 2, 3), "t", {"replicas": (1, 2, 3), "leader": 2}))


@pytest.mark.parametrize(
    ("isr", "min_isr", "is_refused"),
    [((1, 2, 3), 2, False), ((1, 2), 2, True), ((1, 2), 1, False), ((1,), 1, True), ((2, 3), 3, False)],
)
def test_a_replica_is_kept_unless_enough_others_are_in_sync(
    isr: tuple[int, ...], min_isr: int, *, is_refused: bool
) -> None:
    assert bool(rebuild_refusal(replace(BASE, isr=isr), NODE, min_isr)) is is_refused


def test_only_a_replica_outside_of_the_isr_is_out() -> None:
    assert is_out(replace(BASE, isr=(2, 3)), NODE)
    assert not is_out(replace(BASE, isr=(2, 3), leader=NODE), NODE)
    assert not is_out(replace(BASE, isr=(2, 3), elr=(1,)), NODE)
    assert not is_out(replace(BASE, isr=(1, 2)), NODE)
    assert not is_out(replace(BASE, isr=(2, 3), leader=-1), NODE)


class Directories:
    """A controller that takes lost replicas out of the ISR, after a while."""

    def __init__(self, world: RebuildWorld) -> None:
        self._world = world
        self.held: set[tuple[TopicId, int]] = set()
        self.reported: list[tuple[DirectoryId, int]] = []

    def hold(self, placement: tuple[TopicId, int]) -> None:
        self.held.add(placement)

    def release(self, placement: tuple[TopicId, int]) -> None:
        self.held.discard(placement)

    async def send(self, by_directory: dict[DirectoryId, dict[TopicId, list[int]]]) -> bool:
        (directory,) = by_directory
        world = self._world
        self.reported.append((directory, world.partition.log.log_end_offset))
        await asyncio.sleep(0.1)
        if directory == DIRECTORY_LOST and world.takes_out:
            asyncio.get_running_loop().call_later(0.2, world.take_out)
        return True


class Fetchers:
    """Notes which partitions are held."""

    def __init__(self) -> None:
        self.held: list[Partition] = []
        self.released: list[Partition] = []

    def hold(self, partition: Partition) -> None:
        self.held.append(partition)

    def release(self, partition: Partition) -> None:
        self.released.append(partition)


class RebuildWorld:
    """A replica with ten records that is in sync."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        fs = MemoryFileSystem()
        fs.makedirs("/d1")
        runtime = Runtime(SimulatedClock(loop), random.Random(3), InlineThreads(loop), fs, network=None)  # type: ignore[arg-type]
        self.clock = runtime.clock
        self.logs = LogManager(runtime, ["/d1"])
        self.image = with_partitions(cluster(1, 2, 3), "t", {"replicas": (1, 2, 3), "leader": 2})
        self.fetchers = Fetchers()
        self.takes_out = True
        self.rebuilder = ReplicaRebuilder(
            runtime,
            self.logs,
            self.fetchers,  # type: ignore[arg-type]
            node_id=NODE,
            image=lambda: self.image,
            fence_ms=lambda: FENCE_MS,
        )
        self.directories = Directories(self)
        self.rebuilder.directories = self.directories  # type: ignore[assignment]

    async def start(self) -> None:
        await self.logs.load()
        log = self.logs.create(TopicPartition("t", 0), topic_id_of("t"), CONFIG)
        for _ in range(10):
            append(log, make_batch())
        self.partition = Partition("t", 0, topic_id_of("t"), log, self.logs.writer("/d1"))

    def change(self, **changes: Any) -> None:
        known: PartitionImage = partition_of(self.image)
        self.image = with_partition(self.image, "t", 0, replace(known, **changes))

    def take_out(self) -> None:
        self.change(isr=(2, 3))


def run(scenario: Callable[[RebuildWorld], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualTimeLoop()
    world = RebuildWorld(loop)

    async def main() -> None:
        await world.start()
        await scenario(world)

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


@run_with(run)
async def test_the_log_is_dropped_when_it_is_not_counted_and_no_fetch_can_be_on_its_way(world: RebuildWorld, /) -> None:
    began_ms = world.clock.now_ms()
    await world.rebuilder.rebuild(world.partition)
    assert world.clock.now_ms() - began_ms >= FENCE_MS
    assert world.partition.log.log_end_offset == 0
    assert world.fetchers.held == world.fetchers.released == [world.partition]
    assert not world.directories.held
    lost = [end for directory, end in world.directories.reported if directory == DIRECTORY_LOST]
    assert lost == [10, 10], "it is reported as lost before anything is dropped, twice"


@run_with(run)
async def test_a_replica_that_stays_in_sync_is_not_dropped(world: RebuildWorld, /) -> None:
    world.takes_out = False
    with pytest.raises(RebuildRefusedError, match="still leads"):
        await world.rebuilder.rebuild(world.partition)
    assert world.partition.log.log_end_offset == 10
    assert world.fetchers.released == [world.partition]


@run_with(run)
async def test_a_replica_that_a_late_fetch_brought_back_is_not_dropped(world: RebuildWorld, /) -> None:
    task = asyncio.ensure_future(world.rebuilder.rebuild(world.partition))
    await asyncio.sleep(FENCE_MS / 2000)
    world.change(isr=(1, 2, 3))
    world.takes_out = False
    with pytest.raises(RebuildRefusedError):
        await task
    assert world.partition.log.log_end_offset == 10


@run_with(run)
async def test_flushes_count_again_when_a_drop_is_refused_at_the_last_moment(
    world: RebuildWorld, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, save = world.partition.log, world.logs.save_recovery_points

    async def save_while_the_replica_comes_back(log_dirs: list[str]) -> None:
        await save(log_dirs)
        world.change(isr=(1, 2, 3))

    monkeypatch.setattr(world.logs, "save_recovery_points", save_while_the_replica_comes_back)
    with pytest.raises(RebuildRefusedError, match="counts again"):
        await world.rebuilder.rebuild(world.partition)
    log.flush()
    assert log.recovery_point == log.log_end_offset == 10


@run_with(run)
async def test_a_rebuild_that_is_given_up_does_not_wait(world: RebuildWorld, /) -> None:
    """A node that stops has no controller to talk to any more: it would not come to an end."""

    world.logs.directory_id = lambda _path: uuid.UUID(int=1)  # type: ignore[method-assign, assignment] # not formatted
    task = asyncio.ensure_future(world.rebuilder.rebuild(world.partition))
    await asyncio.sleep(FENCE_MS / 2000)
    reported = len(world.directories.reported)
    task.cancel()
    await asyncio.sleep(0)
    assert task.cancelled()
    assert len(world.directories.reported) == reported
    assert world.fetchers.released == [world.partition]
    assert not world.directories.held


@run_with(run)
async def test_a_refused_replica_is_not_reported_as_lost(world: RebuildWorld, /) -> None:
    world.change(isr=(1,), leader=1)
    with pytest.raises(RebuildRefusedError, match="in sync"):
        await world.rebuilder.rebuild(world.partition)
    assert world.directories.reported == []
