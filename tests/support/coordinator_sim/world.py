"""One run: groups of members of either protocol, a node that is killed and restarted, and rest at the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import ClassVar

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.errors import CrabkaError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.coordinator_sim.classic_member import EagerMember
from tests.support.coordinator_sim.consumer_member import ReconcilingMember
from tests.support.coordinator_sim.ledger import REBALANCE_MS, SESSION_MS, Ledger, Place
from tests.support.coordinator_sim.line import Line
from tests.support.coordinator_sim.member import Member
from tests.support.power_loss.clients import connect
from tests.support.power_loss.machine import CLIENT_HOST, NODE_HOST, Death, Machine
from tests.support.power_loss.trace import Trace

SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Housekeeping is rare, so that most kills come between two records of the coordinators.
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.scheduler.interval.ms": "60000",
    "log.retention.check.interval.ms": "60000",
}
TOPICS = {"t": 4, "u": 3}
ROUNDS = 6
GROUP, TRANSACTION = 0, 1
MOST_MEMBERS = 4
# Members that were given up, then a rebalance, then a few heartbeats.
REST_S = 3 * (SESSION_MS + REBALANCE_MS) / 1000


class GroupWorld:
    """The machine, the members and the ledger."""

    topic_sizes: ClassVar[Mapping[str, int]] = TOPICS

    def __init__(self, loop: VirtualTimeLoop, rng: random.Random) -> None:
        self.rng = rng
        self.trace = Trace(loop.time)
        self.machine = Machine(loop, rng, self.trace, SETTINGS)
        self.ledger = Ledger(self.trace, loop.time)
        self.topics: dict[str, uuid.UUID] = {}
        self.places: list[Place] = [
            (topic, index) for topic, count in self.topic_sizes.items() for index in range(count)
        ]
        self.members: dict[Member, asyncio.Task[None]] = {}
        self._count = 0

    async def live(self, groups: Sequence[str]) -> None:
        """Run everything. Raises BrokenInvariantError."""
        await self.machine.start()
        await self._prepare(groups)
        try:
            for _ in range(ROUNDS):
                await self._disturb(groups)
                self._raise_failures()
            await self._come_to_rest(groups)
        finally:
            await self._end(list(self.members))
        await self.machine.stop()

    async def _prepare(self, groups: Sequence[str]) -> None:
        async with connect(self.machine) as cluster:
            admin = Admin(cluster)
            for topic, partitions in self.topic_sizes.items():
                await admin.create_topics([NewTopic(topic, partitions)])
        await self.find_coordinators(GROUP, groups)
        assert self.machine.node is not None
        by_name = self.machine.node.context.image.topics.by_name
        self.topics = {topic: by_name[topic].topic_id for topic in self.topic_sizes}

    async def find_coordinators(self, key_type: int, keys: Sequence[str]) -> None:
        """Ask until all have one, which makes the topic that they write to."""
        line = Line(self.machine, "setup")
        answer = None
        while answer is None or any(row.error_code is not ErrorCode.none for row in answer.coordinators):
            answer = await line.ask(
                ApiKey.FIND_COORDINATOR, lambda types: types.message(key_type=key_type, coordinator_keys=list(keys))
            )
            await asyncio.sleep(0.1)
        line.close()

    # -- members -------------------------------------------------------------------------------------------------

    def _join(self, group_id: str) -> None:
        member = self._new_member(group_id)
        self.trace.note(f"{member.name} comes to {group_id}")
        self.members[member] = asyncio.create_task(member.live())

    def _new_member(self, group_id: str) -> Member:
        self._count += 1
        kind = self.rng.choice(["classic", "consumer"]) if group_id.startswith("mixed") else group_id.partition("-")[0]
        name = f"{kind}-{self._count}"
        if kind == "classic":
            return EagerMember(name, group_id, self.machine, self.ledger, self.places)
        return ReconcilingMember(name, group_id, self.machine, self.ledger, self.topics)

    async def _end(self, members: Sequence[Member]) -> None:
        tasks = [self.members.pop(member) for member in members]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _lose(self, member: Member, *, politely: bool) -> None:
        self.trace.note(f"{member.name} {'leaves' if politely else 'dies'}")
        await self._end([member])
        if politely:
            with contextlib.suppress(CrabkaError):
                await member.leave()
            member.line.close()

    def _raise_failures(self) -> None:
        for task in self.members.values():
            if task.done():
                task.result()

    # -- what happens to them ------------------------------------------------------------------------------------

    async def _disturb(self, groups: Sequence[str]) -> None:
        for _ in range(self.rng.randrange(2, 7)):
            group_id = self.rng.choice(groups)
            here = [member for member in self.members if member.group_id == group_id]
            if here and self.rng.random() < (0.7 if len(here) >= MOST_MEMBERS else 0.25):
                await self._lose(self.rng.choice(here), politely=self.rng.random() < 0.5)
            elif len(here) < MOST_MEMBERS:
                self._join(group_id)
            if self.rng.random() < 0.15:
                self.trace.note("connections cut")
                self.machine.network.cut(CLIENT_HOST, NODE_HOST)
            await asyncio.sleep(self.rng.uniform(0, SESSION_MS / 1000))
        if self.rng.random() < 0.7:
            await self._kill_node()

    async def _kill_node(self) -> None:
        if self.rng.random() < 0.2:
            await self.machine.stop()
        else:
            self.machine.light_fuse(self.rng.randrange(1, 40), Death.KILL)
            await self.machine.wait_for_death(2, Death.KILL)
        await asyncio.sleep(self.rng.uniform(0.1, 2))
        await self.machine.start()

    async def _come_to_rest(self, groups: Sequence[str]) -> None:
        """Without disturbances every partition finds an owner, whatever happened before."""
        for group_id in groups:
            if not any(member.group_id == group_id for member in self.members):
                self._join(group_id)
        for member in self.members:
            await member.settle()
        await asyncio.sleep(REST_S)
        self._raise_failures()
        for group_id in groups:
            here = [member for member in self.members if member.group_id == group_id]
            owned = sorted(place for member in here for place in member.assigned)
            shares = {member.name: sorted(member.assigned) for member in here}
            self.trace.require(owned == sorted(self.places), "every partition has an owner", f"{group_id}: {shares}")
            for member in here:
                await member.committed(member.assigned)


def run_group_world(rng: random.Random, groups: Sequence[str]) -> GroupWorld:
    """Live one life that depends on nothing but the random numbers; a group's kind is the first word of its name."""
    loop = VirtualTimeLoop()

    async def main() -> GroupWorld:
        world = GroupWorld(loop, rng)
        await world.live(groups)
        return world

    return loop.run(main())
