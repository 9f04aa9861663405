"""An event loop whose time is virtual: when nothing is ready, it jumps to the next timer.

Owns time, and the order in which callbacks run. A run depends only on the program and its seeds: there are no
sockets, threads or signals, and tasks and futures hash by their number instead of their address, so that the sets
in which asyncio keeps them (wait, TaskGroup) are iterated in the same order in every process. What remains is the
hash of strings: code that iterates a set of strings is repeatable only with a fixed PYTHONHASHSEED.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Coroutine, Generator

T = TypeVar("T")

TIMER_RESOLUTION_S = 1e-6
# How often what is left at the end of a run, and what it begins while it is cancelled, is cancelled.
MAX_GENERATIONS = 100


class SimulationDeadlockError(Exception):
    """Tasks wait, but no callback is ready and no timer is set."""

    def __init__(self, tasks: list[str]) -> None:
        super().__init__(tasks)
        self.tasks = tasks

    def __str__(self) -> str:
        return "deadlock; waiting: " + ("; ".join(self.tasks) or "no task at all")


class SimulatedTask(asyncio.Task[T]):
    """A task whose hash is the same in every run."""

    def __init__(self, coro: Coroutine[Any, Any, T], loop: VirtualTimeLoop, number: int, **options: Any) -> None:
        self._number = number  # before super: registration hashes the task
        super().__init__(coro, loop=loop, name=f"task-{number}", **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedFuture(asyncio.Future[T]):
    """A future whose hash is the same in every run."""

    def __init__(self, loop: VirtualTimeLoop, number: int) -> None:
        super().__init__(loop=loop)
        self._number = number

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _TimeJump:
    """Replaces the selector: instead of waiting for the next timer, it moves the time there."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        """Move time on by the seconds that a real loop would sleep; None means that nothing would wake it."""
        if timeout is None:
            raise SimulationDeadlockError(self._loop.waiting_tasks())
        self._loop.advance(timeout)
        return []


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Runs coroutines in virtual time, which starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        # Timers this close fire together. Larger than the rounding error of any time within thirty years; asyncio's
        # own nanosecond would leave a timer of next month one rounding error in the future.
        self._clock_resolution = TIMER_RESOLUTION_S
        self._now = 0.0
        self._numbers = itertools.count(1)
        self._owner = threading.get_ident()
        self._selector = _TimeJump(self)
        self.set_task_factory(_new_task)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, cancel what it leaves behind, and close the loop.

        Raises SimulationDeadlockError when `main` waits for something that cannot happen.
        """
        try:
            return self.run_until_complete(main)
        finally:
            try:
                self._cancel_leftovers()
                self.run_until_complete(self.shutdown_asyncgens())
            finally:
                self.close()

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time on; only the loop itself does so."""
        self._now += seconds

    def waiting_tasks(self) -> list[str]:
        """Return a line per unfinished task, in the order of their creation."""
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return [f"{task.get_name()} in {_innermost(task)}" for task in tasks]

    def next_number(self) -> int:
        """Return the next number for a task or future of this loop."""
        return next(self._numbers)

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future with a repeatable hash."""
        return SimulatedFuture(self, self.next_number())

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback from the loop's own thread; others do not exist in a simulation."""
        if threading.get_ident() != self._owner:
            raise RuntimeError("a thread called into the simulation; use InlineThreads")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, *args: Any) -> NoReturn:  # type: ignore[override]
        """Refuse: threads are not repeatable."""
        raise RuntimeError(f"{args[1:2]} would run in a thread; use InlineThreads")

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there is no real network."""
        raise _no_sockets("getaddrinfo", args, kwargs)

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there is no real network."""
        raise _no_sockets("create_connection", args, kwargs)

    async def create_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there is no real network."""
        raise _no_sockets("create_server", args, kwargs)

    async def create_datagram_endpoint(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: there is no real network."""
        raise _no_sockets("create_datagram_endpoint", args, kwargs)

    def _process_events(self, event_list: list[object]) -> None:
        """Have nothing to do: the selector never reports sockets."""

    def _write_to_self(self) -> None:
        """Have nothing to do: no thread sleeps in a selector."""

    def _cancel_leftovers(self) -> None:
        # What ends may begin something else, such as the answer to those who wait for it.
        for _ in range(MAX_GENERATIONS):
            leftovers = sorted(asyncio.all_tasks(self), key=hash)
            if not leftovers:
                return
            for task in leftovers:
                task.cancel()
            self.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))


def _new_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], **options: Any
) -> asyncio.Task[T]:
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("the factory belongs to VirtualTimeLoop")
    name = options.pop("name", None)
    task = SimulatedTask(coro, loop, loop.next_number(), **options)  # type: ignore[arg-type]
    if name is not None:
        task.set_name(name)
    return task


def _innermost(task: asyncio.Task[Any]) -> str:
    """Return where a suspended task stands, as function and line."""
    frames = task.get_stack()
    if not frames:
        return repr(task.get_coro())
    frame = frames[-1]
    return f"{frame.f_code.co_qualname}:{frame.f_lineno}"


def _no_sockets(operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError:
    return RuntimeError(f"{operation}{args}{kwargs or ''} in a simulation; use SimulatedNetwork")
