"""One run: clients at work, a node that dies in many ways, and a check after every start."""

from __future__ import annotations

import asyncio
import random

from crabka.clients.producer.producer import ProducerSettings
from crabka.node.node import Node
from crabka.testing import VirtualTimeLoop
from tests.support.power_loss.checks import NodeCheck
from tests.support.power_loss.clients import (
    PATIENT_MS,
    Administrator,
    Author,
    produce_forever,
    read_forever,
)
from tests.support.power_loss.machine import CLIENT_HOST, NODE_HOST, Death, Machine, recovery_points
from tests.support.power_loss.model import Model
from tests.support.power_loss.trace import Trace

ROUNDS = 4
IDEMPOTENT = ProducerSettings(linger_ms=2, batch_bytes=1500, request_timeout_ms=2_000, delivery_timeout_ms=PATIENT_MS)
# One request at a time keeps the order where sequences do not.
LEADER_ONLY = ProducerSettings(
    acks=1,
    idempotent=False,
    max_in_flight=1,
    linger_ms=2,
    batch_bytes=1500,
    request_timeout_ms=2_000,
    delivery_timeout_ms=PATIENT_MS,
)
# Longer than any answer is under way.
SILENCE_S = 0.1


class World:
    """The machine, the clients and what they know."""

    def __init__(self, loop: VirtualTimeLoop, rng: random.Random) -> None:
        self.rng = rng
        self.trace = Trace(loop.time)
        self.machine = Machine(loop, rng, self.trace)
        self.machine.before_death = self._remember_synced
        self.model = Model()

    async def live(self) -> None:
        """Run everything. Raises BrokenInvariantError."""
        await self._restart(lossy=False)
        administrator = Administrator(self.machine, self.model)
        await administrator.create_lasting_topics()
        authors = [("idempotent-a", IDEMPOTENT), ("idempotent-b", IDEMPOTENT), ("plain", LEADER_ONLY)]
        work = [
            produce_forever(self.machine, self.model, Author(name, self.model, random.Random(name)), settings)
            for name, settings in authors
        ]
        work += [read_forever(self.machine, self.model), administrator.administer_forever()]
        clients = [asyncio.create_task(each) for each in work]
        try:
            for _ in range(ROUNDS):
                await self._disturb()
                await self._end_and_restart()
                await self._raise_failures(clients)
            await asyncio.sleep(2)
            await self._raise_failures(clients)
        finally:
            for each in clients:
                each.cancel()
            await asyncio.wait(clients)
        await asyncio.sleep(SILENCE_S)
        self.machine.die(Death.KILL)
        await self._restart(lossy=False)
        self.model.note_end(clean=True)
        await self.machine.stop()

    @staticmethod
    async def _raise_failures(clients: list[asyncio.Task[None]]) -> None:
        for each in clients:
            if each.done():
                await each

    async def _disturb(self) -> None:
        """Let the clients work for a while, with some broken connections."""
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(self.rng.uniform(0, 0.5))
            self.trace.note("connections cut")
            self.machine.network.cut(CLIENT_HOST, NODE_HOST)
        await asyncio.sleep(self.rng.uniform(0.1, 0.8))

    async def _end_and_restart(self) -> None:
        ending = self.rng.choices([Death.POWER, Death.KILL, None], [6, 3, 1])[0]
        if ending is None:
            self.model.note_end(clean=True)
            await self.machine.stop()
        elif self.rng.random() < 0.3:
            self.machine.die(ending)
        else:
            self.machine.light_fuse(self.rng.randrange(1, 60), ending)
            await self.machine.wait_for_death(5, ending)
        await self._restart(lossy=ending is Death.POWER)

    async def _restart(self, *, lossy: bool) -> None:
        """Start until a node stays up; check it before any client reaches it."""
        network = self.machine.network
        await asyncio.sleep(self.rng.uniform(SILENCE_S, 0.5))
        network.partition(CLIENT_HOST, NODE_HOST)
        if self.rng.random() < 0.3:
            death = self.rng.choice(list(Death))
            self.machine.light_fuse(self.rng.randrange(1, 80), death)
            if not await self.machine.start():
                lossy = lossy or death is Death.POWER
                await asyncio.sleep(SILENCE_S)
        if not self.machine.is_serving:
            await self.machine.start()
        self.machine.disarm()
        NodeCheck(self.machine, self.model, lossy=lossy).run()
        network.heal(CLIENT_HOST, NODE_HOST)

    def _remember_synced(self, node: Node) -> None:
        self.model.synced_ends = recovery_points(node)
        self.model.note_end(clean=False)


def run_world(rng: random.Random) -> World:
    """Live one life that depends on nothing but the random numbers."""
    loop = VirtualTimeLoop()

    async def main() -> World:
        world = World(loop, rng)
        await world.live()
        return world

    return loop.run(main())
