"""A node on a thread of this process, with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from crabka.embedded.one_node import start_one_node
from crabka.runtime import real_runtime, run

if TYPE_CHECKING:
    from collections.abc import Mapping


class ThreadNode:
    """A node that runs until `stop`."""

    def __init__(
        self, thread: threading.Thread, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, address: str
    ) -> None:
        self._thread = thread
        self._loop = loop
        self._stop = stop
        self.bootstrap_servers = address

    @classmethod
    def start(cls, data_dir: str, host: str, port: int, settings: Mapping[str, str]) -> ThreadNode:
        """Start a node and wait until it serves. Raises what the node's start raises."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()

        async def serve() -> None:
            runtime = real_runtime()
            try:
                node, _warnings = await start_one_node(runtime, data_dir, host, port, settings)
                stop = asyncio.Event()
                started.set_result((asyncio.get_running_loop(), stop, node.bootstrap_servers))
                await stop.wait()
                await node.stop()
            finally:
                runtime.threads.close()

        def main() -> None:
            try:
                run(serve())
            except BaseException as error:
                if started.done():
                    raise
                started.set_exception(error)

        thread = threading.Thread(target=main, name="crabka-embedded", daemon=True)
        thread.start()
        try:
            loop, stop, address = started.result()
        except BaseException:
            thread.join()
            raise
        return cls(thread, loop, stop, address)

    def stop(self) -> None:
        """Stop cleanly and wait for the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
