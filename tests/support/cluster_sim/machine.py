"""A simulated host of a cluster: a disk that lives on, and a node that comes and goes in many ways.

Owns the life of one node: start, clean stop, process kill (the page cache survives), power loss (what was not synced is
lost or torn), SIGSTOP, a slow disk, a log dir that fails or comes back empty, a wall clock that jumps.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from crabka.node.node import Node
from crabka.ports import Listener, Runtime, TlsAcceptance
from crabka.testing import (
    FaultRule,
    FaultyFileSystem,
    InlineThreads,
    MemoryFileSystem,
    SimulatedClock,
    SimulatedHost,
    SimulatedNetwork,
    disk_failure,
)
from tests.support.cluster_sim.layout import Layout, SimulatedNodeSpec
from tests.support.cluster_sim.process_loop import ProcessLoop, SimulatedProcess, waits_in
from tests.support.cluster_sim.trace import ClusterTrace

WRITING = frozenset({"open", "makedirs", "rename", "unlink", "rmtree", "fsync_dir", "pwritev", "truncate", "fsync"})
# Cuts may tear a page, a sector, or less.
BLOCK_SIZES = (64, 512, 4096)
THREAD_DELAYS_MS = (0.5, 4.0)


class Ending(Enum):
    """How a node ends."""

    STOP = "clean stop"
    KILL = "process kill"
    POWER = "power loss"


@dataclass
class Surroundings:
    """What all machines of a cluster share."""

    loop: ProcessLoop
    rng: random.Random
    network: SimulatedNetwork
    trace: ClusterTrace
    layout: Layout
    # Called right before an unclean end, while the node can still be looked at.
    before_end: list[Callable[[ClusterMachine, Ending], None]] = field(default_factory=list)
    # Called when a node starts.
    on_start: list[Callable[[ClusterMachine], None]] = field(default_factory=list)


class ProcessNetwork:
    """The network port of one process: a dead one reaches no peer."""

    def __init__(self, host: SimulatedHost, process: SimulatedProcess) -> None:
        self._host = host
        self._process = process

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: TlsAcceptance | None = None
    ) -> Listener:
        """Accept connections."""
        self._check()
        return await self._host.listen(factory, host, port, tls=tls)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection."""
        self._check()
        return await self._host.connect(factory, host, port, tls=tls)

    def direct_writer(self, transport: asyncio.BaseTransport) -> None:
        """Return None: there is no socket."""

    def _check(self) -> None:
        if self._process.is_dead:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))


class ClusterMachine:
    """The host of one node."""

    def __init__(self, world: Surroundings, spec: SimulatedNodeSpec) -> None:
        self.spec = spec
        self.name = spec.host
        self.clock = SimulatedClock(world.loop, skew_ms=world.rng.randrange(-800, 800))
        self.disk = MemoryFileSystem(now_ms=self.clock.now_ms)
        # The program of the running process; `node` is the same from when it serves.
        self.program: Node | None = None
        self.node: Node | None = None
        # Why a start failed, for the waiting caller.
        self.failure: BaseException | None = None
        # Rises with every start.
        self.generation = 0
        self.failed_dir: str | None = None
        self._world = world
        self._host = world.network.host(spec.host)
        self._config = world.layout.config(spec)
        self._process: SimulatedProcess | None = None
        self._threads: InlineThreads | None = None
        self._usual_delay_ms = 0.0
        self._fs: FaultyFileSystem | None = None
        # Changes of the disk that are left to the node, and how it ends then.
        self._fuse: tuple[int, Ending] | None = None
        world.layout.format(spec, self._new_runtime(SimulatedProcess(world.loop, "format")))

    # -- what others see -----------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether a process runs, serving or still starting."""
        return self._process is not None

    @property
    def is_serving(self) -> bool:
        """Whether the node is started."""
        return self.node is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped for a while."""
        return self._process is not None and self._process.is_paused

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a node on what the disk holds; `is_serving` tells when it is done, `failure` if it gave up."""
        if self.is_up:
            return
        self.generation += 1
        self.failure = None
        self._process = SimulatedProcess(self._world.loop, f"{self.name}/{self.generation}")
        self._note("starts")
        for notify in self._world.on_start:
            notify(self)
        task = self._process.start(self._boot(self._process, self._new_runtime(self._process)))
        task.add_done_callback(lambda _: None)

    async def _boot(self, process: SimulatedProcess, runtime: Runtime) -> None:
        node = self.program = Node(self._config, runtime)
        try:
            await node.start()
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the one who waits
            if not process.is_dead:
                self.failure = error
                self._note(f"cannot start: {error!r}")
            return
        if not process.is_dead:
            self.node = node
            self._note("serves")

    async def stop(self, timeout_s: float) -> bool:
        """Stop cleanly; return whether the node was in time. One that is late is killed."""
        node, process = self.node, self._process
        if node is None or process is None:
            return False
        self._note("stops")
        self._fuse = None
        stopping = process.start(node.stop())
        await asyncio.wait([stopping], timeout=timeout_s)
        if self._process is not process:
            return False
        if not stopping.done():
            self._note(f"has not stopped within {timeout_s:g} s, it waits in {waits_in(stopping)}")
            self.end(Ending.KILL)
            return False
        self.node = None
        if (error := stopping.exception()) is not None:
            self.failure = error
        self._note("has stopped")
        self._close(process)
        return True

    def end(self, ending: Ending) -> None:
        """End the process now, in the middle of whatever it does."""
        process = self._process
        if process is None:
            return
        self._note(ending.value + ("" if self.is_serving else " during start"))
        for notify in self._world.before_end:
            notify(self, ending)
        self.node = None
        self._close(process)
        if ending is Ending.POWER:
            rng = self._world.rng
            self.disk.crash(rng, block_bytes=rng.choice(BLOCK_SIZES))

    def _close(self, process: SimulatedProcess) -> None:
        self._process = self.program = None
        self._fuse = None
        if self._threads is not None:
            self._threads.kill()
        self._world.network.crash(self.name)
        # The dead still hold handles of the disk that was theirs.
        self.disk, taken = self.disk.clone(), self.disk
        taken.crash()
        process.bury()

    # -- faults --------------------------------------------------------------------------------------------------

    def light_fuse(self, operations: int, ending: Ending) -> None:
        """Let the node end right before the so-many-th change of its disk from now on."""
        self._fuse = (operations, ending)
        if self._fs is not None:
            self._fs.add(FaultRule(before=self._on_disk_use))

    def pause(self) -> None:
        """Stop the process as SIGSTOP does; its kernel goes on."""
        if self._process is not None and not self._process.is_paused:
            self._note("pauses")
            self._process.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        if self._process is not None and self._process.is_paused:
            self._note("goes on")
            self._process.resume()

    def slow_down(self, delay_ms: float | None) -> None:
        """Let everything that waits for the disk take up to so long; None for the usual."""
        if self._threads is not None:
            self._threads._max_delay_s = (self._usual_delay_ms if delay_ms is None else delay_ms) / 1000

    def fail_dir(self, path: str) -> None:
        """Let a log dir fail for ever, until the next start."""
        self._note(f"{path} fails")
        self.failed_dir = path
        if self._fs is not None:
            # Ahead of a fuse: the first rule that fires decides.
            self._fs.rules.insert(0, disk_failure(f"{path}/*"))

    def rot(self, path: str, position: int) -> None:
        """Flip a bit of a file that was durable, while the node is down."""
        file = self.disk.open(path)
        (byte,) = file.pread(1, position)
        file.pwritev([bytes([byte ^ 0x40])], position)
        file.fsync()
        self._note(f"{path} rots at {position}")

    def lose_dir(self, path: str) -> None:
        """Put an empty disk in the place of a log dir; the node is down."""
        assert not self.is_up
        self._note(f"{path} is replaced by an empty disk")
        self.disk.rmtree(path)
        self.disk.fsync_dir("/")
        process = SimulatedProcess(self._world.loop, "format")
        self._world.layout.format(self.spec, self._new_runtime(process), again=True)

    def _new_runtime(self, process: SimulatedProcess) -> Runtime:
        rng = self._world.rng
        self._fs = FaultyFileSystem(self.disk)
        self.failed_dir = None
        self._usual_delay_ms = rng.choice(THREAD_DELAYS_MS)
        seed = rng.getrandbits(64)
        self._threads = InlineThreads(self._world.loop, random.Random(seed), max_delay_ms=self._usual_delay_ms)
        return Runtime(
            clock=self.clock,
            rng=random.Random(rng.getrandbits(64)),
            threads=self._threads,
            fs=self._fs,
            network=ProcessNetwork(self._host, process),
        )

    def _on_disk_use(self, operation: str, path: str) -> None:
        if self._fuse is None or operation not in WRITING:
            return
        remaining, ending = self._fuse
        self._fuse = (remaining - 1, ending)
        if remaining <= 1:
            self._note(f"before {operation} {path}:")
            self.end(ending)

    def _note(self, event: str) -> None:
        self._world.trace.note(f"{self.name}: {event}")
