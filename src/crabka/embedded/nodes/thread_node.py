"""A node on a thread of this process, with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Self

from crabka.embedded.nodes.life import Life
from crabka.embedded.nodes.one_node import open_node
from crabka.runtime import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.config.server import ServerConfig
    from crabka.embedded.edge.edge import Edge
    from crabka.embedded.nodes.virtual_time import VirtualTime
    from crabka.metadata.image import MetadataImage
    from crabka.node.node import Node
    from crabka.ports import Network
    from crabka.quorum.log.voters import VoterNode


class NodeMetadata(NamedTuple):
    """The metadata that a node has applied, and the epoch in which it is the active controller."""

    image: MetadataImage
    active_epoch: int | None


class ThreadNode:
    """One life of a node: `start` once, then `stop` or `kill` once."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        edge: Edge | None = None,
        network: Callable[[Network], Network] | None = None,
        cluster_id: str | None = None,
        voters: Sequence[VoterNode] = (),
        time: VirtualTime | None = None,
    ) -> None:
        """`network` puts a network between the node and the machine's; without voters the node is the only one.

        Without a time of its own it has the machine's.
        """
        self._config = config
        self._edge = edge
        self._network = network
        self._cluster_id = cluster_id
        self._voters = voters
        self._time = time
        self._thread = threading.Thread(target=self._main, name=f"crabka-node-{config.node_id}", daemon=True)
        self._started: Future[str] = Future()
        self._failure: BaseException | None = None
        self._is_killed = False
        self._released: threading.Event | None = None
        # Set by the thread of the node, before `_started` has a result.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked: asyncio.Future[None] | None = None
        self._kill_asked: asyncio.Future[None] | None = None
        self._life: Life | None = None
        self._node: Node | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port for clients."""
        return self._started.result(0)

    @property
    def failure(self) -> BaseException | None:
        """Return why the node could not start or ended by itself, None if it did not."""
        return self._failure

    @property
    def is_serving(self) -> bool:
        """Whether the node has begun to serve."""
        return self._started.done() and self._started.exception() is None

    @property
    def is_paused(self) -> bool:
        """Whether the node does nothing."""
        return self._released is not None

    def metadata(self) -> NodeMetadata | None:
        """Return what the node knows of its cluster, None if it takes no part in the quorum now."""
        try:
            quorum = None if self._node is None else self._node.quorum
        except RuntimeError:
            return None
        if quorum is None:
            return None
        return NodeMetadata(quorum.image, quorum.leader_epoch if quorum.is_active else None)

    def start(self) -> Self:
        """Start and wait until requests are served. Raises what the node's start raises."""
        self.begin()
        self.wait_serving()
        return self

    def begin(self) -> None:
        """Start without waiting."""
        self._thread.start()

    def wait_serving(self, timeout: float | None = None) -> None:
        """Wait until requests are served. Raises what the node's start raises, TimeoutError; the node is ended then."""
        try:
            self._started.result(timeout)
        except BaseException:
            # The start failed, or an interrupt ends the waiting for it.
            self.kill()
            raise

    def stop(self) -> None:
        """Stop cleanly and wait. Stopping a node that has ended is allowed. What goes wrong is in `failure`."""
        self.resume()
        self._call(self._ask_for_stop)
        self._thread.join()

    def kill(self) -> None:
        """End the node in the middle of whatever it does, and wait."""
        self._is_killed = True
        self._call(self._cut_off)
        self.resume()
        self._thread.join()

    def pause(self) -> None:
        """Let the node do nothing until `resume`: its sockets stay open, and nothing is read from them."""
        if self._released is not None:
            return
        held, released = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            released.wait()
            if self._is_killed:
                # Before anything else that waits for its turn.
                self._cut_off()

        if self._call(hold):
            self._released = released
            while self._thread.is_alive() and not held.wait(0.1):
                pass

    def advance(self, seconds: float) -> None:
        """Move the node's own time forward."""
        time = self._time
        assert time is not None  # noqa: S101 - the caller gave it
        done = threading.Event()

        moving: list[asyncio.Task[None]] = []

        def move() -> None:
            moving.append(asyncio.ensure_future(time.advance_running(seconds)))
            moving[0].add_done_callback(lambda _: done.set())

        if self._call(move):
            while self._thread.is_alive() and not done.wait(0.1):
                pass

    def resume(self) -> None:
        """Let a paused node go on; it notices that time has passed."""
        released, self._released = self._released, None
        if released is not None:
            released.set()

    # --- on the node's thread

    def _main(self) -> None:
        try:
            if self._time is None:
                run(self._serve())
            else:
                with asyncio.Runner(loop_factory=self._time.new_loop) as runner:
                    runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the one who waits
            self._failure = self._failure or error
            if not self._started.done():
                self._started.set_exception(error)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._stop_asked, self._kill_asked = loop.create_future(), loop.create_future()
        note_opened = (lambda _: None) if self._edge is None else self._edge.own.add
        life = self._life = Life(self._network, note_opened=note_opened, clock=self._time)
        self._loop = loop
        living = asyncio.ensure_future(self._live(life))
        if self._is_killed:
            self._cut_off()
        await asyncio.wait((living, self._kill_asked), return_when=asyncio.FIRST_COMPLETED)
        if not living.done():
            await life.bury()
            if not self._started.done():
                self._started.set_exception(RuntimeError("the node was killed while it started"))
            return
        life.close()
        living.result()

    async def _live(self, life: Life) -> None:
        node = self._node = open_node(life.runtime, self._config, cluster_id=self._cluster_id, voters=self._voters)
        if self._edge is not None:
            self._edge.attach(node, life.runtime.clock, self._config.node_id)
        try:
            await node.start()
            self._started.set_result(node.bootstrap_servers)
            assert self._stop_asked is not None  # noqa: S101 - made before
            await asyncio.wait((self._stop_asked, node.failed), return_when=asyncio.FIRST_COMPLETED)
            if node.failed.done():
                self._failure = node.failed.exception()
            await node.stop()
        finally:
            if self._edge is not None:
                self._edge.detach(node)

    def _ask_for_stop(self) -> None:
        if self._stop_asked is not None and not self._stop_asked.done():
            self._stop_asked.set_result(None)

    def _cut_off(self) -> None:
        if self._kill_asked is None or self._kill_asked.done() or self._life is None:
            return
        if self._node is not None:
            self._node.listeners.abort()
        self._life.cut_off()
        self._kill_asked.set_result(None)

    def _call(self, action: Callable[[], None]) -> bool:
        """Call on the node's loop; return False if the node has ended or has no loop yet."""
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed
            return False
        return True
