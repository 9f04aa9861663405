"""Brings changes of the metadata to the parts of a broker, in order, without letting the loop wait for a disk.

A change that places new logs here is delivered when these have been created in threads, and the directories of logs
that it takes away are renamed in threads before the next change is delivered. All other changes are delivered at once,
unless one before them waits. Those who caused a change are answered when it is done (`on_metadata` returns a future for
that), so a topic is usable when CreateTopics returns. Meanwhile the image names partitions that are not here yet:
requests for them get NOT_LEADER_OR_FOLLOWER, and clients repeat them. A broker that is about to start, or has stopped,
delays no request: the controller of the same node answers the whole cluster.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Spawn

    Listener = Callable[[MetadataChanges, MetadataImage], None]
    Work = Callable[[], Awaitable[None]]


class _Change(NamedTuple):
    delta: MetadataChanges
    image: MetadataImage
    # None if nothing waits for it.
    done: asyncio.Future[None] | None


class MetadataPipeline:
    """The changes of one broker. Only for the loop. Until `start`, changes wait."""

    def __init__(
        self,
        *,
        prepare: Callable[[MetadataChanges, MetadataImage], Work | None],
        finish: Callable[[], Work | None],
        spawn: Spawn,
    ) -> None:
        """`prepare` returns what must be done before a change is delivered, `finish` after it; None if nothing is."""
        self._prepare = prepare
        self._finish = finish
        self._spawn = spawn
        self._listeners: list[Listener] = []
        self._waiting: deque[_Change] = deque()
        # Changes wait: no listener is ready for them yet, or a task delivers them.
        self._is_held = True
        self._is_started = False
        self._is_over = False

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(delta, image)` for every change, after those that subscribed before."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Deliver what waits, and what comes."""
        self._is_started = True
        self._is_held = False
        if self._waiting:
            self._begin()

    def close(self) -> None:
        """The broker stops, or its parts no longer agree: nothing is delivered any more."""
        self._is_over = True
        for change in self._waiting:
            if change.done is not None:
                change.done.cancel()
        self._waiting.clear()

    @property
    def is_idle(self) -> bool:
        """Whether all changes are delivered, so that the image of the quorum is the one that all parts have."""
        return not self._is_over and not self._is_held and not self._waiting

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> asyncio.Future[None] | None:
        """Take a change; return a future if it is not done at once. That is cancelled if the broker stops before."""
        if self._is_over:
            return None
        if not self._is_started:
            self._waiting.append(_Change(delta, image, None))
            return None
        preparation = None if self._is_held else self._prepare(delta, image)
        if not self._is_held and preparation is None:
            self._deliver(delta, image)
            finishing = self._finish()
            if finishing is None:
                return None
            return self._run_beside(self._complete(finishing))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Change(delta, image, done))
        if preparation is not None:
            self._begin(preparation)
        return done

    def _deliver(self, delta: MetadataChanges, image: MetadataImage) -> None:
        for listener in list(self._listeners):
            listener(delta, image)

    def _begin(self, preparation: Work | None = None) -> None:
        self._run_beside(self._deliver_waiting(preparation))

    def _run_beside(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Hold changes back while a coroutine runs, and go on with them afterwards."""
        self._is_held = True
        task = self._spawn(coroutine)
        task.add_done_callback(self._on_end)
        return task

    async def _complete(self, finishing: Work) -> None:
        await finishing()

    async def _deliver_waiting(self, preparation: Work | None) -> None:
        """Deliver the changes that wait, the first of which is being prepared already."""
        while self._waiting:
            delta, image, done = self._waiting[0]
            try:
                preparation = preparation or self._prepare(delta, image)
                if preparation is not None:
                    await preparation()
                    preparation = None
                    if self._is_over:
                        return
                self._deliver(delta, image)
                finishing = self._finish()
                if finishing is not None:
                    await finishing()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                if self._is_over:
                    raise
                if done is None:
                    raise InvariantError(f"a change of the metadata cannot be delivered: {error!r}") from error
                # The quorum decides what that means.
                done.set_exception(error)
                return
            if self._is_over:
                return
            self._waiting.popleft()
            if done is not None and not done.done():
                done.set_result(None)

    def _on_end(self, task: asyncio.Future[None]) -> None:
        first = self._waiting[0].done if self._waiting else None
        if task.cancelled() or task.exception() is not None or (first is not None and first.done()):
            self.close()
            return
        self._is_held = False
        if self._waiting:
            self._begin()
