"""A topic-based metadata manager over a log in memory, on a loop with virtual time or in a thread of its own."""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from crabka.ports import Runtime
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.event_log import InProcessMetadataEventLog, InProcessMetadataTopic
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.settings import RemoteTopicSettings
from crabka.runtime import real_runtime
from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime

TOPIC_ID = uuid.UUID(int=0xABCDEF)
SNAPSHOTS = "/data/remote-log-metadata"
HASTY = RemoteTopicSettings(consume_wait_ms=2_000)


@dataclass
class TopicSimulation:
    """The topic, the disk and the ports; managers come and go."""

    runtime: Runtime
    fs: MemoryFileSystem
    topic: InProcessMetadataTopic
    settings: RemoteTopicSettings = HASTY
    logs: list[InProcessMetadataEventLog] = field(default_factory=list)
    managers: list[TopicBasedRemoteLogMetadataManager] = field(default_factory=list)

    async def start(self, *hosted: TopicIdPartition, own: Iterable[int] = ()) -> TopicBasedRemoteLogMetadataManager:
        """Start a manager that hosts partitions, and wait until it is ready for them."""
        log = InProcessMetadataEventLog(self.topic)
        manager = TopicBasedRemoteLogMetadataManager(self.runtime, log, SNAPSHOTS, self.settings)
        await manager.start()
        self.logs.append(log)
        self.managers.append(manager)
        manager.set_own_metadata_partitions(own)
        manager.on_partition_leadership_changes(hosted, ())
        await until(lambda: all(manager.is_ready(partition) for partition in hosted))
        return manager

    @property
    def log(self) -> InProcessMetadataEventLog:
        """The log of the manager that was started last."""
        return self.logs[-1]


async def until(condition: Callable[[], bool]) -> None:
    """Return once a condition holds; to be used in virtual time."""
    async with asyncio.timeout(600):
        while not condition():
            await asyncio.sleep(0.01)


def simulate_topic(
    test: Callable[[TopicSimulation], Awaitable[None]],
    *,
    partition_count: int = 5,
    fs: MemoryFileSystem | None = None,
    settings: RemoteTopicSettings = HASTY,
) -> None:
    """Run a test's coroutine function in virtual time."""
    loop = VirtualTimeLoop()
    rng = random.Random(11)
    disk = fs or MemoryFileSystem()
    runtime = simulated_runtime(loop, rng, SimulatedNetwork(loop, rng).host("node"), disk)
    simulation = TopicSimulation(runtime, disk, InProcessMetadataTopic(partition_count, TOPIC_ID), settings)

    async def main() -> None:
        try:
            await test(simulation)
        finally:
            for manager in simulation.managers:
                await manager.stop()

    loop.run(main())


@contextmanager
def manager_in_thread(partition_count: int = 5) -> Iterator[TopicBasedRemoteLogMetadataManager]:
    """Run a manager on a loop in a thread of its own, for who calls it from others."""
    started: Future[tuple[TopicBasedRemoteLogMetadataManager, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        runtime = replace(real_runtime(), fs=MemoryFileSystem())
        log = InProcessMetadataEventLog(InProcessMetadataTopic(partition_count, TOPIC_ID))
        manager = TopicBasedRemoteLogMetadataManager(runtime, log, SNAPSHOTS, RemoteTopicSettings())
        stop = asyncio.Event()
        await manager.start()
        started.set_result((manager, asyncio.get_running_loop(), stop))
        await stop.wait()
        await manager.stop()
        runtime.threads.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    manager, loop, stop = started.result()
    try:
        yield manager
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def host_and_wait(manager: TopicBasedRemoteLogMetadataManager, *partitions: TopicIdPartition) -> None:
    """Let a manager in another thread host partitions; return once it is ready for them."""
    manager.on_partition_leadership_changes(partitions, ())
    while not all(manager.is_ready(partition) for partition in partitions):
        threading.Event().wait(0.001)
