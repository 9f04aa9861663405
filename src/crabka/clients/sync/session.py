"""The common part of blocking clients: an event loop in a thread, a cluster, and an async client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from crabka.clients.cluster.cluster import Cluster
from crabka.ports import Runtime
from crabka.runtime import new_event_loop, real_runtime

T = TypeVar("T")
ClientT = TypeVar("ClientT")


class LoopThread:
    """An event loop that runs in a daemon thread until closed."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result; an interrupt cancels it."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and join the thread. Closing twice is allowed."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSession(Generic[ClientT]):
    """Loop thread, runtime, cluster and async client of one blocking client. Calls may come from any thread."""

    def __init__(
        self,
        connect: Callable[[Runtime], Cluster],
        make: Callable[[Cluster], ClientT],
        close: Callable[[ClientT], Awaitable[None]] | None = None,
    ) -> None:
        self._runtime = real_runtime()
        self._thread = LoopThread("crabka-client")
        self._close_client = close
        self._is_closed = False

        async def start() -> tuple[Cluster, ClientT]:
            cluster = connect(self._runtime)
            return cluster, make(cluster)

        try:
            self._cluster, self.client = self._thread.run(start())
        except BaseException:
            self._stop_threads()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client and wait for its result."""
        return self._thread.run(coroutine)

    def close(self) -> None:
        """Close the client and its connections. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._thread.run(self._close_all())
        finally:
            self._stop_threads()

    async def _close_all(self) -> None:
        try:
            if self._close_client is not None:
                await self._close_client(self.client)
        finally:
            await self._cluster.close()

    def _stop_threads(self) -> None:
        self._thread.close()
        self._runtime.threads.close()
