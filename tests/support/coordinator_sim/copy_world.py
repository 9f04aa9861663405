"""One run of copiers that write a topic exactly once, watched by a reader of committed records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import ClassVar

from crabka.clients.fetcher.fetcher import Fetcher, FetcherSettings, OffsetReset
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.testing import VirtualTimeLoop
from tests.support.coordinator_sim.copier import OUTPUT, RECORDS_PER_PARTITION, Copier, value_of
from tests.support.coordinator_sim.member import Member
from tests.support.coordinator_sim.world import MOST_MEMBERS, REST_S, TRANSACTION, GroupWorld
from tests.support.power_loss.clients import connect

INPUT = "in"
PARTITIONS = 3
GROUP_ID = "copy"
READER = FetcherSettings(offset_reset=OffsetReset.EARLIEST, read_committed=True, max_wait_ms=200)
# Long enough for time-outs of transactions that were left open, many times.
PATIENCE_S = 4 * REST_S


class CopyWorld(GroupWorld):
    """Copiers from the input to the output."""

    topic_sizes: ClassVar = {INPUT: PARTITIONS, OUTPUT: PARTITIONS}

    def __init__(self, loop: VirtualTimeLoop, rng: random.Random) -> None:
        super().__init__(loop, rng)
        self.places = [(INPUT, index) for index in range(PARTITIONS)]
        self.seen: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
        self.copiers: list[Copier] = []
        self._reader: asyncio.Task[None] | None = None

    async def live(self, groups: Sequence[str]) -> None:
        """Run everything. Raises BrokenInvariantError."""
        try:
            await super().live(groups)
        finally:
            if self._reader is not None:
                self._reader.cancel()
                await asyncio.wait([self._reader])

    async def _prepare(self, groups: Sequence[str]) -> None:
        await super()._prepare(groups)
        await self.find_coordinators(TRANSACTION, [f"copier-{slot}" for slot in range(MOST_MEMBERS)])
        self._reader = asyncio.create_task(self._read_forever())

    def _new_member(self, group_id: str) -> Member:
        taken = {member.transactional_id for member in self.members if isinstance(member, Copier)}
        free = [name for name in (f"copier-{slot}" for slot in range(MOST_MEMBERS)) if name not in taken]
        copier = Copier(free[0], group_id, self.machine, self.ledger, self.places)
        self.copiers.append(copier)
        return copier

    async def _come_to_rest(self, groups: Sequence[str]) -> None:
        await super()._come_to_rest(groups)
        deadline_s = self.machine.loop.time() + PATIENCE_S
        while self.machine.loop.time() < deadline_s and not self._is_complete():
            await asyncio.sleep(1)
            self._raise_failures()
        counts = [len(values) for values in self.seen]
        self.trace.require(self._is_complete(), "everything is copied in the end", f"{counts} records per partition")

    def _is_complete(self) -> bool:
        return all(len(values) == RECORDS_PER_PARTITION for values in self.seen)

    def _raise_failures(self) -> None:
        super()._raise_failures()
        if self._reader is not None and self._reader.done() and not self._reader.cancelled():
            self._reader.result()

    async def _read_forever(self) -> None:
        """Read committed records; each of them is the next of its partition, whatever was killed meanwhile."""
        next_offsets = [0] * PARTITIONS
        while True:
            async with connect(self.machine) as cluster, Fetcher(cluster, READER) as fetcher:
                fetcher.assign([TopicPartition(OUTPUT, index) for index in range(PARTITIONS)])
                for index, offset in enumerate(next_offsets):
                    fetcher.seek(TopicPartition(OUTPUT, index), offset)
                for _ in range(20):
                    try:
                        records = await fetcher.poll(500, 100)
                    except CrabkaError as error:
                        self.trace.note(f"cannot read: {error}")
                        break
                    for record in records:
                        values = self.seen[record.partition]
                        self.trace.require(
                            record.value == value_of(record.partition, len(values)),
                            "committed records are there once and in order",
                            f"{record.value!r} at {record.partition}@{record.offset} after {values[-3:]}",
                        )
                        values.append(record.value)
                        next_offsets[record.partition] = record.offset + 1
            await asyncio.sleep(0.2)


def run_copy_world(rng: random.Random) -> CopyWorld:
    """Live one life of the copiers that depends on nothing but the random numbers."""
    loop = VirtualTimeLoop()

    async def main() -> CopyWorld:
        world = CopyWorld(loop, rng)
        await world.live([GROUP_ID])
        return world

    return loop.run(main())
