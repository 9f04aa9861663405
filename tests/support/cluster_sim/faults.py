"""What goes wrong in a cluster: a storm of faults that heal by themselves, drawn from the weather of a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.support.cluster_sim.clients import CLIENT_HOST
from tests.support.cluster_sim.layout import LOG_DIRS
from tests.support.cluster_sim.machine import ClusterMachine, Ending

if TYPE_CHECKING:
    from tests.support.cluster_sim.world import ClusterWorld

# A node that cannot stop within this time, because there is no controller to hand over to, is killed.
STOP_TIMEOUT_S = 12.0
Deed = Callable[[ClusterMachine], Awaitable[None]]


class Storm:
    """Random deeds, each on a machine that nothing else befalls at the time."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._rng = rng = random.Random(world.rng.getrandbits(64))
        self._busy: set[ClusterMachine] = set()
        self._running: set[asyncio.Task[None]] = set()
        # Every run has its own weather. In most at most one broker and one controller suffer at a time; in some of the
        # others nothing is lost but processes, so that no loss of records is excused.
        self._is_rough = rng.random() < 0.4
        self._is_lossy = not self._is_rough or rng.random() < 0.4
        # Whether the next broker suffers only when the last one has recovered.
        self._is_patient = not self._is_rough and rng.random() < 0.7
        self._pace_s = rng.choice([0.7, 1.5, 3.0])
        self._longest_s = rng.choice([1.0, 4.0, 8.0])
        has_replicas = world.layout.replication_factor > 1
        self._deeds: list[tuple[Deed, float]] = [
            (self._kill, rng.choice([1, 3])),
            (self._cut_power, rng.choice([0, 1, 2]) * self._is_lossy),
            (self._stop, rng.choice([0, 1, 2])),
            (self._pause, rng.choice([0, 1, 2])),
            (self._isolate, rng.choice([0, 1])),
            (self._part_from_controllers, rng.choice([0, 1])),
            (self._part_one_way, rng.choice([0, 1])),
            (self._slow_down, rng.choice([0, 1])),
            (self._lose_dir, rng.choice([0, 0, 1]) * (self._is_lossy and has_replicas)),
            (self._fail_dir, rng.choice([0, 0, 1]) * (self._is_lossy and has_replicas)),
            (self._cut, 1),
            (self._turn_clock, 1),
        ]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is broken at the moment."""
        return not self._running

    async def rage(self, seconds: float) -> None:
        """Do harm for some time; what is under way at the end heals in `calm_down`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        deeds, weights = zip(*self._deeds, strict=True)
        while loop.time() < end_s:
            await asyncio.sleep(self._rng.uniform(0, 2 * self._pace_s))
            self._world.raise_failures()
            machine = self._victim()
            if machine is not None:
                (deed,) = self._rng.choices(deeds, weights)
                self._start(self._on(machine, deed))

    async def calm_down(self) -> None:
        """Let everything that is under way come to its end, and repair what is broken."""
        if self._running:
            await asyncio.wait(self._running)
        self._world.network.heal_all()
        for machine in self._world.machines:
            machine.resume()
            machine.slow_down(None)
            machine.start()

    def _victim(self) -> ClusterMachine | None:
        free = [machine for machine in self._world.machines if machine not in self._busy]
        if not self._is_rough:
            suffering = {role for machine in self._busy for role in machine.spec.roles.split(",")}
            free = [machine for machine in free if not suffering & set(machine.spec.roles.split(","))]
        if self._is_patient and not self._world.is_healthy():
            free = [machine for machine in free if not machine.spec.is_broker]
        return self._rng.choice(free) if free else None

    def _start(self, deed: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(deed)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _on(self, machine: ClusterMachine, deed: Deed) -> None:
        self._busy.add(machine)
        try:
            await deed(machine)
        finally:
            self._busy.discard(machine)

    async def _last(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.05, self._longest_s))

    # -- ends of a node ------------------------------------------------------------------------------------------

    async def _kill(self, machine: ClusterMachine) -> None:
        await self._end(machine, Ending.KILL)
        await self._restart(machine)

    async def _cut_power(self, machine: ClusterMachine) -> None:
        await self._end(machine, Ending.POWER)
        await self._restart(machine)

    async def _stop(self, machine: ClusterMachine) -> None:
        await machine.stop(STOP_TIMEOUT_S)
        await self._restart(machine)

    async def _lose_dir(self, machine: ClusterMachine) -> None:
        await self._end(machine, Ending.KILL)
        self._replace(machine, self._rng.choice(LOG_DIRS))
        await self._restart(machine)

    async def _fail_dir(self, machine: ClusterMachine) -> None:
        if not machine.spec.is_broker or not machine.is_serving:
            return
        path = self._rng.choice(LOG_DIRS)
        machine.fail_dir(path)
        await self._last()
        await self._end(machine, Ending.KILL)
        if self._rng.random() < 0.5:
            self._replace(machine, path)
        await self._restart(machine)

    async def _end(self, machine: ClusterMachine, ending: Ending) -> None:
        if self._rng.random() < 0.5:
            machine.light_fuse(self._rng.randrange(1, 40), ending)
            await asyncio.sleep(self._rng.uniform(0, 1.5))
        machine.end(ending)

    def _replace(self, machine: ClusterMachine, path: str) -> None:
        if machine.spec.is_broker and not machine.is_up:
            machine.lose_dir(path)
            self._world.note_loss(machine)

    async def _restart(self, machine: ClusterMachine) -> None:
        await self._last()
        if self._rng.random() < 0.15:
            machine.start()
            await self._end(machine, Ending.POWER if self._is_lossy and self._rng.random() < 0.5 else Ending.KILL)
            await self._last()
        machine.start()

    # -- faults of the surroundings ------------------------------------------------------------------------------

    async def _pause(self, machine: ClusterMachine) -> None:
        machine.pause()
        await self._last()
        machine.resume()

    async def _slow_down(self, machine: ClusterMachine) -> None:
        delay_ms = self._rng.choice([30, 200, 900])
        self._world.trace.note(f"{machine.name}: the disk is slow, {delay_ms} ms")
        machine.slow_down(delay_ms)
        await self._last()
        machine.slow_down(None)

    async def _isolate(self, machine: ClusterMachine) -> None:
        others = [other.name for other in self._world.machines if other is not machine]
        if self._rng.random() < 0.3:
            others.append(CLIENT_HOST)
        await self._part(machine, others, one_way=False)

    async def _part_from_controllers(self, machine: ClusterMachine) -> None:
        others = [other.name for other in self._world.machines if other.spec.is_controller and other is not machine]
        await self._part(machine, others, one_way=False)

    async def _part_one_way(self, machine: ClusterMachine) -> None:
        others = [other.name for other in self._world.machines if other is not machine and self._rng.random() < 0.6]
        await self._part(machine, others, one_way=True)

    async def _part(self, machine: ClusterMachine, others: list[str], *, one_way: bool) -> None:
        network = self._world.network
        outwards = self._rng.random() < 0.5
        arrow = ("->" if outwards else "<-") if one_way else "|"
        self._world.trace.note(f"{machine.name} {arrow} {' '.join(others)}: parted")
        for other in others:
            ends = (machine.name, other) if outwards else (other, machine.name)
            network.partition(*ends, one_way=one_way)
        await self._last()
        self._world.trace.note(f"{machine.name} {arrow} {' '.join(others)}: together again")
        for other in others:
            network.heal(machine.name, other)

    async def _cut(self, machine: ClusterMachine) -> None:
        others = [CLIENT_HOST, *(other.name for other in self._world.machines if other is not machine)]
        other = self._rng.choice(others)
        self._world.trace.note(f"{machine.name} x {other}: connections cut")
        self._world.network.cut(machine.name, other)

    async def _turn_clock(self, machine: ClusterMachine) -> None:
        machine.clock.skew_ms = self._rng.randrange(-1500, 1500)
        self._world.trace.note(f"{machine.name}: the clock is off by {machine.clock.skew_ms} ms")
