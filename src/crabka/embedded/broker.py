"""`Broker`: a node on a thread of its own, or in a child process, as a context manager.

    with Broker() as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers})

Port and data stay the same over `stop` and `start`, `kill` and `restart`, until the block ends. Without `data_dir`
the data lies in a temporary directory, which is removed with the broker. `async with` works too and does not block the
loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from crabka.embedded.client import KitClient
from crabka.embedded.edge.edge import Edge
from crabka.embedded.nodes.forgotten import end_when_forgotten
from crabka.embedded.nodes.one_node import one_node_config
from crabka.embedded.nodes.process_node import ProcessNode
from crabka.embedded.nodes.thread_node import ThreadNode
from crabka.embedded.nodes.virtual_time import NO_SESSION_END, VirtualTime
from crabka.embedded.port_reservation import PortReservation, check_port
from crabka.embedded.settings import NO_SETTINGS, Settings, settings_text, tier_settings
from crabka.embedded.temporary_dir import TemporaryDir
from crabka.embedded.under_test import UnderTest
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from types import TracebackType

LOOPBACK = "127.0.0.1"


class Broker(UnderTest):
    """A one-node broker. Use it by `with` or `async with`, or by `start` and `close`."""

    def __init__(
        self,
        settings: Settings = NO_SETTINGS,
        *,
        data_dir: str | PathLike[str] | None = None,
        tier: str | PathLike[str] | None = None,
        process: bool = False,
        host: str = LOOPBACK,
        port: int = 0,
        journal: bool = True,
        virtual_time: bool = False,
    ) -> None:
        """Describe the broker; `start` starts it. Raises ConfigError for bad settings.

        `settings` are Kafka's, as text or as Python's values. `tier` receives segments of topics with
        remote.storage.enable: a directory or an address such as s3://bucket/prefix. `process` runs it in a child
        process, away from this one's interpreter lock; it has no faults and no journal then. Port 0 picks a free one.
        Without `journal` requests are not recorded. With `virtual_time` the broker's time can be moved by `advance`.
        """
        self._settings = ({} if tier is None else tier_settings(tier)) | settings_text(settings)
        self._given_dir = None if data_dir is None else os.fspath(data_dir)
        self._is_process = process
        self._host = host
        self._given_port = port
        self._faults_and_journal = None if process else Edge(journal=journal)
        if virtual_time and process:
            raise ValueError("the time of a broker in a child process cannot be moved: leave out process=True")
        self._time = VirtualTime() if virtual_time else None
        if virtual_time:
            self._settings = NO_SESSION_END | self._settings
        me = weakref.ref(self)
        self._kit_client = KitClient(
            lambda: _require(me()).bootstrap_servers, None if self._time is None else self._time.now_ms
        )
        self._temporary_dir: TemporaryDir | None = None
        self._reservation: PortReservation | None = None
        self._node: ThreadNode | ProcessNode | None = None
        self._call_off_end: Callable[[], object] = bool
        self._reported: BaseException | None = None
        self._owner = os.getpid()
        # One change of its life at a time; tests stop brokers from threads of their own.
        self._changing = threading.RLock()
        # Bad settings are refused here and not at the start.
        check_port(port)
        one_node_config(self._given_dir or "unused", host, port, self._settings)

    # --- life

    @property
    def bootstrap_servers(self) -> str:
        """host:port for clients. Raises RuntimeError unless the broker runs, with the reason if it has failed."""
        return self._running().bootstrap_servers

    @property
    def is_running(self) -> bool:
        """Whether the broker was started and did neither stop nor fail."""
        node = self._node
        return node is not None and node.failure is None

    @property
    def data_dir(self) -> Path:
        """The directory of the data. Raises RuntimeError if it is temporary and not made yet."""
        if self._given_dir is not None:
            return Path(self._given_dir)
        if self._temporary_dir is None:
            raise RuntimeError("the broker has no directory yet: start it first")
        return self._temporary_dir.path / "data"

    def start(self) -> Self:
        """Start and wait until requests are served.

        Raises ConfigError and StorageError from the node, RuntimeError if it runs already.
        """
        with self._changing:
            self._check_owner()
            if self._node is not None:
                raise RuntimeError("the broker is running already")
            self._reported = None
            try:
                node = self._new_node().start()
                self._node, self._call_off_end = node, end_when_forgotten(self, node.kill, self._kit_client.close)
            except OSError as error:
                self._let_go()
                raise ConfigError(f"the broker cannot use its directory: {error}") from error
            except BaseException:
                self._let_go()
                raise
        return self

    def stop(self) -> None:
        """Stop cleanly and wait; port and data are kept for another `start`. Stopping twice is allowed.

        Raises RuntimeError if the broker had failed and no call has reported it.
        """
        self._end(ThreadNode.stop, ProcessNode.stop)

    def kill(self) -> None:
        """End as by `kill -9`: nothing is closed, flushed or answered; the next `start` recovers.

        What was written is in the page cache and stays, as after the end of a process. Killing twice is allowed.
        """
        self._end(ThreadNode.kill, ProcessNode.kill)

    def restart(self) -> None:
        """Stop cleanly, if it runs, and start again on the same port and data."""
        with self._changing:
            self.stop()
            self.start()

    def pause(self) -> None:
        """Let the broker do nothing until `resume`, as by SIGSTOP: connections stay open and are not answered."""
        with self._changing:
            self._running().pause()

    def resume(self) -> None:
        """Let a paused broker go on."""
        with self._changing:
            self._running().resume()

    def advance(self, seconds: float) -> None:
        """Move the time of the broker forward: what is due by then happens now, as after a machine has slept.

        So retention and timeouts of transactions need no waiting. For clients no time passes: their records are as old
        as they say, those of `produce` are of the broker's time; a consumer that goes on with its heartbeats may keep
        its session. Raises RuntimeError without
        `virtual_time=True`, ValueError.
        """
        if self._time is None:
            raise RuntimeError("the time of this broker cannot be moved: start it with virtual_time=True")
        if not seconds >= 0:
            raise ValueError(f"time moves forward by at least 0 seconds, not by {seconds}")
        with self._changing:
            self._check()
            if isinstance(self._node, ThreadNode):
                self._node.advance(seconds)
            else:
                self._time.advance(seconds)

    def restore(self) -> None:
        """Start if it does not run, resume, end all faults."""
        with self._changing:
            if self._node is None:
                self.start()
            self.resume()
            if self._faults_and_journal is not None:
                self.clear_faults()

    def close(self) -> None:
        """Stop cleanly, give the port back and remove a temporary directory. Closing twice is allowed.

        Raises RuntimeError if the broker had failed and no call has reported it.
        """
        with self._changing:
            try:
                self.stop()
            finally:
                self._let_go()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Broker cannot be pickled: give other processes its bootstrap_servers")

    def __repr__(self) -> str:
        node = self._node
        if node is None:
            return "<Broker: not running>"
        return f"<Broker: {'failed' if node.failure else node.bootstrap_servers}>"

    # --- for the parts

    def _edge(self) -> Edge:
        if self._faults_and_journal is None:
            raise RuntimeError("a broker in a child process has no faults and no journal: leave out process=True")
        self._check()
        return self._faults_and_journal

    def _client(self) -> KitClient:
        return self._kit_client

    def _check(self) -> None:
        self._check_owner()
        node = self._node
        if node is not None and (failure := node.failure) is not None:
            self._reported = failure
            raise _failed(failure) from failure

    def _new_node(self) -> ThreadNode | ProcessNode:
        if self._given_dir is None and self._temporary_dir is None:
            self._temporary_dir = TemporaryDir()
        if self._reservation is None:
            self._reservation = PortReservation(self._host, self._given_port)
        data_dir, port = str(self.data_dir), self._reservation.port
        if self._is_process:
            temporary = None if self._temporary_dir is None else str(self._temporary_dir.path)
            return ProcessNode(data_dir, self._host, port, self._settings, temporary_dir=temporary)
        config = one_node_config(data_dir, self._host, port, self._settings)
        return ThreadNode(config, edge=self._faults_and_journal, time=self._time)

    def _end(self, end_thread: Callable[[ThreadNode], None], end_process: Callable[[ProcessNode], None]) -> None:
        with self._changing:
            self._check_owner()
            node, self._node = self._node, None
            if node is None:
                return
            self._call_off_end()
            self._kit_client.close()
            failure = node.failure
            if isinstance(node, ThreadNode):
                end_thread(node)
            else:
                end_process(node)
            failure = failure or node.failure
            if failure is not None and failure is not self._reported:
                raise _failed(failure) from failure

    def _running(self) -> ThreadNode | ProcessNode:
        self._check()
        if self._node is None:
            raise RuntimeError("the broker is not running: use it as a context manager or call start()")
        return self._node

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this Broker belongs to process {self._owner}: give other processes its bootstrap_servers"
            )

    def _let_go(self) -> None:
        if self._reservation is not None:
            self._reservation.release()
            self._reservation = None
        if self._temporary_dir is not None:
            self._temporary_dir.remove()
            self._temporary_dir = None


def _require(broker: Broker | None) -> Broker:
    if broker is None:
        raise RuntimeError("the broker was not closed and is gone")
    return broker


def _failed(failure: BaseException) -> RuntimeError:
    return RuntimeError(f"the broker has failed: {failure}")
