"""One run of a cluster: it starts, serves clients through a storm of faults, heals, and is checked."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.ids import TopicPartition
from crabka.testing import MemoryFileSystem, SimulatedNetwork
from crabka.testing.simulated_runtime import simulated_runtime
from tests.support.cluster_sim.clients import (
    CLIENT_HOST,
    ClientDesk,
    EndReader,
    NumberingProducer,
    OrderlyReader,
    plans,
)
from tests.support.cluster_sim.copying import COPIED, COPIERS, CopyScene
from tests.support.cluster_sim.faults import Storm
from tests.support.cluster_sim.gaps import GapMeter
from tests.support.cluster_sim.layout import Layout, Shape
from tests.support.cluster_sim.machine import ClusterMachine, Ending, Surroundings
from tests.support.cluster_sim.model import ClusterModel
from tests.support.cluster_sim.operator import Operator
from tests.support.cluster_sim.probe import ClusterProbe, ReplicaBatch, partitions_of, stored_batches
from tests.support.cluster_sim.process_loop import ProcessLoop
from tests.support.cluster_sim.trace import ClusterTrace
from tests.support.cluster_sim.watch import EQUAL, ClusterWatch
from tests.support.power_loss.trace import BrokenInvariantError

SHORT_STORM_S = 6.0
LONG_STORM_S = 20.0
# Far more than sessions, elections, fetch backoffs and catching up take with these settings.
HEALING_S = 60.0
COPYING_S = 60.0
STOPPING_S = 30.0
LIVENESS = "after healing everything works again"
NO_ERRORS = "no error is left to the loop"

Script = Callable[["ClusterWorld"], Awaitable[None]]


@dataclass(frozen=True)
class RunConditions:
    """What a run is like. Without a script a storm rages."""

    shape: Shape = Shape.SPLIT
    script: Script | None = None
    settings: Mapping[str, str] | None = None
    copies: bool = True
    operates: bool = True
    # Replicas move between the log dirs of their brokers.
    relocates: bool = False
    # What clients show of themselves.
    security: ClientSecurity = UNPROTECTED
    storm_s: float = SHORT_STORM_S
    producer_pause_s: float = 0.06
    # How long copying may take to go on after healing.
    patience_s: float = COPYING_S


class ClusterWorld:
    """The machines, the clients and what they know."""

    def __init__(
        self, loop: ProcessLoop, seed: int, conditions: RunConditions, listener: Callable[[str], None] | None = None
    ) -> None:
        self.loop = loop
        self.rng = random.Random(seed)
        self.conditions = conditions
        self.trace = ClusterTrace(loop.time, listener)
        self.network = SimulatedNetwork(loop, random.Random(self.rng.getrandbits(64)))
        self.layout = Layout(conditions.shape, conditions.settings)
        self.surroundings = Surroundings(loop, self.rng, self.network, self.trace, self.layout)
        self.machines = [ClusterMachine(self.surroundings, spec) for spec in self.layout.specs]
        self.probe = ClusterProbe(self.machines)
        self.model = ClusterModel(self.trace, loop.time)
        self.watch = ClusterWatch(self.machines, self.probe, self.model, self.trace)
        self.meter = GapMeter()
        self.storm = Storm(self)
        client_runtime = simulated_runtime(loop, self.rng, self.network.host(CLIENT_HOST), MemoryFileSystem())
        self.desk = ClientDesk(
            client_runtime,
            self.layout.bootstrap,
            self.model,
            self.watch,
            self.trace,
            random.Random(self.rng.getrandbits(64)),
            conditions.security,
        )
        self.scene = CopyScene(self.desk, loop)
        factor = self.layout.replication_factor
        self.topics = plans(factor)
        self.places = [place for plan in self.topics for place in plan.places]
        copied = CopyScene.topics(factor) if conditions.copies else []
        broker_ids = [spec.node_id for spec in self.layout.brokers]
        self.operator = Operator(self.desk, broker_ids, [*self.topics, *copied], self.layout.voters)
        self.producers = [
            NumberingProducer(self.desk, name, self.places, conditions.producer_pause_s) for name in ("ann", "bob")
        ]
        self.reader = OrderlyReader(self.desk, self.places)
        self._tasks: list[asyncio.Task[None]] = []
        self.surroundings.before_end.append(self._note_end)
        self.surroundings.on_start.append(self._note_start)
        self.model.on_acknowledged.append(self.meter.acknowledged)
        loop.set_exception_handler(self._on_loop_error)

    # -- the course of a run -------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Run everything. Raises BrokenInvariantError."""
        try:
            await self._begin()
            if self.conditions.script is not None:
                await self.conditions.script(self)
            else:
                await asyncio.sleep(1)
                await self.storm.rage(self.conditions.storm_s)
            await self.storm.calm_down()
            await self._recover()
            self._check_equal()
        finally:
            await self._end_clients()
        await self._stop()

    async def _begin(self) -> None:
        for machine in self.machines:
            machine.start()
        await self.wait(lambda: all(machine.is_serving for machine in self.machines), HEALING_S, "the cluster starts")
        await self.operator.create_topics()
        await self.wait(self.is_healthy, HEALING_S, "new topics have leaders")
        self._start(self.watch.watch_forever())
        self._start(self.reader.read_forever())
        self._start(EndReader(self.desk, self.places).ask_forever())
        for producer in self.producers:
            self._start(producer.produce_forever())
        if self.conditions.operates:
            self._start(self.operator.operate_forever())
        if self.conditions.relocates:
            self._start(self.operator.relocate_forever())
        if self.conditions.copies:
            self._start(self.scene.read_forever())
            for number in range(COPIERS):
                self._start(self.scene.copy_forever(number))

    async def _recover(self) -> None:
        """Everything has healed: all must work again, in bounded time."""
        self.trace.note("everything is repaired")
        self._start(self.operator.rescue_forever(self._hopeless))
        await self.wait(self.is_healthy, HEALING_S, "all replicas are in sync")
        await self.scene.settle()
        if self.conditions.copies:
            await self.wait(
                self._is_copied, self.conditions.patience_s, f"{COPIED}: {[len(values) for values in self.scene.seen]}"
            )
        for producer in self.producers:
            producer.finish()
        await self.wait(
            lambda: not any(producer.unanswered_count for producer in self.producers), HEALING_S, "all is acknowledged"
        )
        await self.wait(lambda: not self.reader.missing_count(), HEALING_S, "all is read", self.reader.check_complete)
        self.reader.check_complete()
        await self.wait(self.is_healthy, HEALING_S, "all replicas are in sync")
        await self.wait(
            lambda: not self.watch.misplaced(), HEALING_S, "the metadata know all log dirs", self.watch.check_places
        )
        self.watch.look_deep()

    def _hopeless(self) -> list[TopicPartition]:
        """Return the partitions without a leader whose records may be lost."""
        return [
            TopicPartition(topic, index)
            for topic, index, partition in partitions_of(self.probe.image)
            if partition.leader < 0 and self.model.is_excused(TopicPartition(topic, index))
        ]

    def _is_copied(self) -> bool:
        self.scene.observe()
        return self.scene.is_complete or self.scene.trace.is_lenient

    async def _stop(self) -> None:
        self.trace.note("the cluster stops")
        brokers = [machine for machine in self.machines if machine.spec.is_broker]
        await asyncio.gather(*(machine.stop(STOPPING_S) for machine in brokers))
        await asyncio.gather(*(machine.stop(STOPPING_S) for machine in self.machines if machine not in brokers))

    # -- what scripts and faults use -----------------------------------------------------------------------------

    async def wait(
        self,
        condition: Callable[[], bool],
        timeout_s: float,
        what: str,
        explain: Callable[[], None] | None = None,
    ) -> None:
        """Wait until something holds. Raises BrokenInvariantError if it does not in time."""
        end_s = self.loop.time() + timeout_s
        while not condition():
            self.raise_failures()
            if self.loop.time() >= end_s:
                if explain is not None:
                    explain()
                self.trace.require(False, LIVENESS, f"not within {timeout_s:g} s: {what}; {self._state()}")
            await asyncio.sleep(0.05)

    def raise_failures(self) -> None:
        """Raise errors of tasks without a caller."""
        if self.trace.broken is not None:
            raise self.trace.broken
        self.watch.check_nodes()
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def is_healthy(self) -> bool:
        """Whether every node serves, every replica is in sync and no partition moves."""
        if not all(machine.is_serving for machine in self.machines):
            return False
        image = self.probe.image
        wanted = {plan.name for plan in self.topics}
        return wanted <= image.topics.by_name.keys() and all(
            partition.leader >= 0
            and set(partition.isr) == set(partition.replicas)
            and not partition.adding
            and not partition.removing
            for _, _, partition in partitions_of(image)
        )

    def machine_of(self, node_id: int) -> ClusterMachine:
        """Return the machine of a node."""
        return next(machine for machine in self.machines if machine.spec.node_id == node_id)

    def leader_of(self, topic: str, index: int = 0) -> ClusterMachine:
        """Return the machine that leads a partition, as the newest metadata says."""
        return self.machine_of(self.probe.image.topics.by_name[topic].partitions[index].leader)

    def note_loss(self, machine: ClusterMachine) -> None:
        """A broker that is down lost a disk."""
        if machine.spec.is_broker and self.probe.has_image:
            self.model.note_end(machine.spec.node_id, self.probe.image, loses_data=True)

    # -- inner ---------------------------------------------------------------------------------------------------

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(coroutine))

    async def _end_clients(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _note_end(self, machine: ClusterMachine, ending: Ending) -> None:
        if not machine.spec.is_broker or not self.probe.has_image:
            return
        image = self.probe.image
        is_alone = self.storm.is_quiet and self.is_healthy() and ending is Ending.KILL
        self.model.note_end(machine.spec.node_id, image, loses_data=ending is Ending.POWER)
        if is_alone:
            topics = {plan.name for plan in self.topics}
            self.meter.leader_killed(machine.spec.node_id, image, topics, self.loop.time())
        else:
            self.meter.forget()

    def _note_start(self, machine: ClusterMachine) -> None:
        if machine.spec.is_broker and self.probe.has_image:
            self.model.note_start(machine.spec.node_id, self.probe.image)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BrokenInvariantError):
            return
        try:
            self.trace.require(False, NO_ERRORS, f"{context.get('message')}: {error!r}")
        except BrokenInvariantError as broken:
            if error is not None:
                broken.__cause__ = error

    def _check_equal(self) -> None:
        """With all replicas in sync and no writer, all replicas of a partition are the same, byte by byte."""
        contents: dict[tuple[str, int], tuple[str, list[ReplicaBatch]]] = {}
        for machine, partition in self.probe.replicas():
            place = (partition.topic, partition.index)
            stored = stored_batches(machine.disk, partition.log.path)
            batches = [batch for batch in stored if batch.header.last_offset < partition.log.high_watermark]
            name, expected = contents.setdefault(place, (machine.name, batches))
            start = max((each[0].header.base_offset for each in (expected, batches) if each), default=0)
            ours = [batch.data for batch in batches if batch.header.base_offset >= start]
            theirs = [batch.data for batch in expected if batch.header.base_offset >= start]
            shared = min(len(ours), len(theirs))
            self.trace.require(ours[:shared] == theirs[:shared], EQUAL, f"{place} differs at {machine.name} and {name}")

    def _state(self) -> str:
        nodes = [
            f"{machine.name} {'serves' if machine.is_serving else 'starts' if machine.is_up else 'is down'}"
            for machine in self.machines
        ]
        if not self.probe.has_image:
            return ", ".join(nodes)
        odd = [
            f"{topic}-{index} {partition.isr} of {partition.replicas} led by {partition.leader}"
            for topic, index, partition in partitions_of(self.probe.image)
            if partition.leader < 0 or set(partition.isr) != set(partition.replicas)
        ]
        unanswered = {producer.name: producer.unanswered_count for producer in self.producers}
        return f"{', '.join(nodes)}; not in sync: {odd}; unanswered: {unanswered}"


def run_world(
    seed: int, conditions: RunConditions | None = None, listener: Callable[[str], None] | None = None
) -> ClusterWorld:
    """Run one seed. Raises BrokenInvariantError with the end of its story."""
    loop = ProcessLoop()

    async def main() -> ClusterWorld:
        world = ClusterWorld(loop, seed, conditions or conditions_of(seed), listener)
        await world.live()
        world.raise_failures()
        return world

    with warnings.catch_warnings():
        # A process that dies leaves coroutines that it never got to.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        return loop.run(main())


def conditions_of(seed: int) -> RunConditions:
    """Return what the run of a seed is like."""
    storm_s = random.Random(seed).choice([SHORT_STORM_S, SHORT_STORM_S, LONG_STORM_S])
    return RunConditions(shape=Shape.COMBINED if seed % 3 == 0 else Shape.SPLIT, storm_s=storm_s)
