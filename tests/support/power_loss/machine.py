"""A simulated host with one node that dies at any moment, also between two operations on its disk.

Owns the life of the node: start, clean stop, process kill (the page cache survives), power loss (what was not synced
is lost or torn). The dead keep nothing: their disk, threads and connections are taken away in the same instant.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from enum import Enum

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.ids import TopicPartition
from crabka.node.node import Node
from crabka.ports import Runtime
from crabka.quorum.formatting import format_storage
from crabka.testing import (
    FaultRule,
    FaultyFileSystem,
    InlineThreads,
    MemoryFileSystem,
    SimulatedClock,
    SimulatedNetwork,
    VirtualTimeLoop,
    simulated_runtime,
)
from tests.support.power_loss.trace import Trace

NODE_HOST = "node"
CLIENT_HOST = "client"
PORT = 9092
LOG_DIR = "/d"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
# Everything that a node does now and then happens often here, and its metadata log rolls and is pruned.
SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "400",
    "log.flush.scheduler.interval.ms": "250",
    "log.flush.interval.ms": str(1 << 40),
    "log.retention.check.interval.ms": "600",
    "log.segment.delete.delay.ms": "300",
    "auto.create.topics.enable": "false",
    "internal.metadata.log.segment.bytes": "3000",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.max.retention.bytes": "9000",
}
WRITING = frozenset({"open", "makedirs", "rename", "unlink", "rmtree", "fsync_dir", "pwritev", "truncate", "fsync"})
# Cuts may tear a page, a sector, or less.
BLOCK_SIZES = (64, 512, 4096)
THREAD_DELAYS_MS = (0.5, 5.0, 60.0)
# So often is a dead node's cleaning up interrupted; the next node starts much later.
BURIAL_TURNS = 40
NODE_PACKAGES = ("/crabka/broker/", "/crabka/net/", "/crabka/node/", "/crabka/quorum/", "/crabka/log/")


class Death(Enum):
    """How a node ends."""

    KILL = "process kill"
    POWER = "power loss"


class Machine:
    """The host of a node."""

    def __init__(
        self, loop: VirtualTimeLoop, rng: random.Random, trace: Trace, settings: Mapping[str, str] | None = None
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.clock = SimulatedClock(loop)
        self.network = SimulatedNetwork(loop, random.Random(rng.getrandbits(64)))
        self.disk = MemoryFileSystem(now_ms=self.clock.now_ms)
        self.client_runtime = simulated_runtime(loop, rng, self.network.host(CLIENT_HOST), MemoryFileSystem())
        properties = {**one_node_properties(LOG_DIR, NODE_HOST, PORT), **SETTINGS, **(settings or {})}
        self.config, _ = ServerConfig.from_properties(properties)
        self.node: Node | None = None
        # Rises with every death and every stop.
        self.generation = 0
        # Called right before a death, while the node can still be asked.
        self.before_death: Callable[[Node], None] | None = None
        self._threads: InlineThreads | None = None
        self._starting: asyncio.Task[None] | None = None
        self._died = asyncio.Event()
        # Changes of the disk that are left to the node, and how it ends then.
        self._fuse: tuple[int, Death] | None = None
        format_storage(self._new_runtime(self.disk), self.config, CLUSTER_ID)

    @property
    def is_serving(self) -> bool:
        """Whether a node runs."""
        return self.node is not None

    async def start(self) -> bool:
        """Start a node on what the disk holds; return False if a fuse killed it on the way."""
        self._died.clear()
        node = Node(self.config, self._new_runtime(FaultyFileSystem(self.disk, [FaultRule(before=self._on_disk_use)])))
        self._starting = asyncio.create_task(node.start())
        dying = asyncio.create_task(self._died.wait())
        await asyncio.wait([self._starting, dying], return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if self._died.is_set():
            self._starting.cancel()
            return False
        failure = self._starting.exception()
        self.trace.require(failure is None, "the node starts", repr(failure))
        self.node = node
        self.trace.note("node serves")
        return True

    async def stop(self) -> None:
        """Stop the node cleanly."""
        node, self.node = self.node, None
        if node is not None:
            self.trace.note("clean stop")
            self._fuse = None
            await node.stop()
            self.generation += 1

    def die(self, death: Death) -> None:
        """End the node now, in the middle of whatever it does."""
        self.trace.note(f"{death.value}{'' if self.is_serving else ' during start'}")
        if self.node is not None and self.before_death is not None:
            self.before_death(self.node)
        self._fuse = None
        self.node = None
        self.generation += 1
        if self._threads is not None:
            self._threads.kill()
        self.network.crash(NODE_HOST)
        self.disk, taken = self.disk.clone(), self.disk
        # The dead still hold handles of the disk that was theirs.
        taken.crash()
        if death is Death.POWER:
            self.disk.crash(self.rng, block_bytes=self.rng.choice(BLOCK_SIZES))
        self._died.set()
        self.loop.call_soon(self._bury, BURIAL_TURNS)

    def light_fuse(self, operations: int, death: Death) -> None:
        """Let the node die right before the so-many-th change of its disk from now on."""
        self._fuse = (operations, death)

    def disarm(self) -> None:
        """Put the fuse out."""
        self._fuse = None

    async def wait_for_death(self, timeout_s: float, death: Death) -> None:
        """Wait until the fuse has burnt down; after the timeout the node dies at once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._died.wait()
        if not self._died.is_set():
            self.die(death)

    def _on_disk_use(self, operation: str, path: str) -> None:
        if self._fuse is None or operation not in WRITING:
            return
        remaining, death = self._fuse
        self._fuse = (remaining - 1, death)
        if remaining <= 1:
            self.trace.note(f"before {operation} {path}:")
            self.die(death)

    def _bury(self, turns: int) -> None:
        """Cancel what the dead node ran; some of it cleans up, and waits for threads that will never answer."""
        for task in sorted(asyncio.all_tasks(self.loop), key=hash):
            code = getattr(task.get_coro(), "cr_code", None)
            if code is not None and any(package in code.co_filename for package in NODE_PACKAGES):
                task.cancel()
        if turns:
            self.loop.call_soon(self._bury, turns - 1)

    def _new_runtime(self, fs: MemoryFileSystem | FaultyFileSystem) -> Runtime:
        runtime = simulated_runtime(
            self.loop,
            self.rng,
            self.network.host(NODE_HOST),
            fs,
            max_thread_delay_ms=self.rng.choice(THREAD_DELAYS_MS),
        )
        assert isinstance(runtime.threads, InlineThreads)
        self._threads = runtime.threads
        return runtime


def recovery_points(node: Node) -> dict[TopicPartition, int]:
    """Return up to where each log of a node was fsynced."""
    # A log start moves the recovery point along without a sync: then it says nothing about records.
    return {
        log.topic_partition: log.recovery_point
        for log in node.context.logs
        if log.recovery_point > log.log_start_offset
    }
