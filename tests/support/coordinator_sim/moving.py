"""Worlds in which the partitions of the one node behave as if they had followers: late ones, and some that take over.

A high watermark follows its log with a delay, and now and then not for a long time. The leadership goes away and comes
back in a later epoch; what was above the high watermark may be lost meanwhile, as if the other leader had not had it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crabka.broker.partition.partition import Partition
from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.requests import Outcome
from crabka.testing import VirtualTimeLoop
from tests.support.coordinator_sim.copy_world import GROUP_ID, CopyWorld
from tests.support.coordinator_sim.world import GroupWorld

if TYPE_CHECKING:
    Base = GroupWorld
else:
    Base = object

NODE_ID = 1
NO_LEADER = -1
LONG_S = 8.0


class LaggingPartition:
    """A partition whose follower is late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random, partition: Partition) -> None:
        self._loop = loop
        self._rng = rng
        self.partition = partition
        self._free_at_s = 0.0
        # Wishes of before a truncation are about other records.
        self._generation = 0
        vars(partition.log)["set_high_watermark"] = self._wish

    def stall(self, seconds: float) -> None:
        """Let the follower fetch nothing for a while."""
        self._free_at_s = self._loop.time() + seconds

    def cut(self) -> None:
        """Lose what no other replica has."""
        self._generation += 1
        self.partition.log.truncation.truncate_to(self.partition.log.high_watermark)

    def _wish(self, offset: int) -> None:
        log = self.partition.log
        if offset <= log.high_watermark:
            log.state.set_high_watermark(offset)
            return
        delay_s = max(self._rng.uniform(0.001, 0.05), self._free_at_s - self._loop.time())
        self._loop.call_later(delay_s, self._reach, offset, self._generation)

    def _reach(self, offset: int, generation: int) -> None:
        partition, log = self.partition, self.partition.log
        if generation != self._generation or not partition.is_leader or offset <= log.high_watermark:
            return
        if self._loop.time() < self._free_at_s:
            self._loop.call_later(self._free_at_s - self._loop.time(), self._reach, offset, generation)
            return
        log.state.set_high_watermark(offset)
        for waiter in tuple(partition.waiters.for_readable):
            waiter.progressed(partition, 1)


class MovingPartitions(Base):
    """Adds followers to a world."""

    lagging: list[LaggingPartition]
    moves = 0
    _mover: asyncio.Task[None] | None = None

    async def _prepare(self, groups: Sequence[str]) -> None:
        await super()._prepare(groups)
        self._follow()

    async def _kill_node(self) -> None:
        await self._stop_moving()
        await super()._kill_node()
        self._follow()

    def _follow(self) -> None:
        assert self.machine.node is not None
        partitions = list(self.machine.node.context.partitions)
        self.lagging = [LaggingPartition(self.machine.loop, self.rng, each) for each in partitions]
        for partition in partitions:
            partition.replica_count = 2

    async def _disturb(self, groups: Sequence[str]) -> None:
        self._mover = asyncio.create_task(self._move_some())
        try:
            await super()._disturb(groups)
        finally:
            await self._stop_moving()
        for lagging in self.lagging:
            lagging.stall(0)
            if not lagging.partition.is_leader:
                await self._lead(lagging, NODE_ID)

    async def _stop_moving(self) -> None:
        mover, self._mover = self._mover, None
        if mover is not None:
            mover.cancel()
            await asyncio.wait([mover])
            if not mover.cancelled():
                mover.result()

    async def _move_some(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0, 3))
            lagging = self.rng.choice(self.lagging)
            match self.rng.randrange(4):
                case 0:
                    lagging.stall(self.rng.uniform(0, LONG_S))
                case 1:
                    await self._lead(lagging, NODE_ID)
                case _:
                    await self._lead(lagging, NO_LEADER)
                    await asyncio.sleep(self.rng.uniform(0, 2))
                    if self.rng.random() < 0.7:
                        lagging.cut()
                    await self._lead(lagging, NODE_ID)

    async def _lead(self, lagging: LaggingPartition, leader: int) -> None:
        partition = lagging.partition
        node = self.machine.node
        assert node is not None
        assert node.controller is not None
        self.trace.note(f"{partition.topic}-{partition.index} is led by {leader}")
        self.moves += 1
        # A leader is always in sync; a power cut may have left no replica there.
        in_sync: dict[str, Any] = (
            {} if leader == NO_LEADER else {"isr": (leader,), "eligible_leader_replicas": (), "last_known_elr": ()}
        )
        record = PartitionChangeRecord(
            partition_id=partition.index, topic_id=partition.topic_id, leader=leader, **in_sync
        )
        await node.controller.context.metadata_writer.submit(lambda _image: Outcome(None, [record]))
        partition.replica_count = 2


class MovingGroupWorld(MovingPartitions, GroupWorld):
    """Groups whose coordinators move."""


class MovingCopyWorld(MovingPartitions, CopyWorld):
    """Copiers whose coordinators, and whose partitions, move."""


def run_moving_groups(rng: random.Random, groups: Sequence[str]) -> MovingGroupWorld:
    """Live one life that depends on nothing but the random numbers."""
    loop = VirtualTimeLoop()

    async def main() -> MovingGroupWorld:
        world = MovingGroupWorld(loop, rng)
        await world.live(groups)
        return world

    return loop.run(main())


def run_moving_copiers(rng: random.Random) -> MovingCopyWorld:
    """Live one life of the copiers that depends on nothing but the random numbers."""
    loop = VirtualTimeLoop()

    async def main() -> MovingCopyWorld:
        world = MovingCopyWorld(loop, rng)
        await world.live([GROUP_ID])
        return world

    return loop.run(main())
