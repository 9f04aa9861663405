"""A virtual-time loop that knows which simulated process each callback belongs to.

A process is known by its context (contextvars): whatever its first task starts, schedules or waits for inherits it.
So one process among many on a loop can be stopped as SIGSTOP does, with its tasks, timers, threads and sockets, while
the others run on; and what a dead process left behind can be found.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from crabka.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from crabka.testing.virtual_time_loop import SimulatedTask

T = TypeVar("T")

# A dead process' cleaning up is interrupted so often; it waits for threads and peers that will never answer.
BURIAL_TURNS = 40


class SimulatedProcess:
    """One life of a program on a host."""

    def __init__(self, loop: ProcessLoop, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self.held: list[asyncio.Handle] = []
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, self)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as a task of this process."""
        return self._loop.create_task(coroutine, context=self._context.copy())

    def run(self, call: Callable[[], T]) -> T:
        """Call a function as code of this process."""
        return self._context.copy().run(call)

    def pause(self) -> None:
        """Let nothing of this process run: SIGSTOP."""
        self.is_paused = True

    def resume(self) -> None:
        """Let it go on: what is overdue happens now, in order."""
        self.is_paused = False
        held, self.held = self.held, []
        self._loop.release(held)

    def bury(self) -> None:
        """End all tasks of a process that is dead: its disk, threads and connections are gone already."""
        self.is_dead = True
        self.resume()
        self._loop.call_soon(self._bury, BURIAL_TURNS)

    def _bury(self, turns: int) -> None:
        remaining = self._loop.tasks_of(self)
        for task in remaining:
            task.cancel()
        if turns and remaining:
            self._loop.call_soon(self._bury, turns - 1)


PROCESS: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("process", default=None)


class GatedQueue(deque[asyncio.Handle]):
    """The loop's queue of callbacks that are due; those of a paused process wait with it."""

    def append(self, handle: asyncio.Handle) -> None:
        """Take a callback that is due."""
        process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None and process.is_paused:
            process.held.append(handle)
        else:
            super().append(handle)


class ProcessLoop(VirtualTimeLoop):
    """Runs many processes in one virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._ready = GatedQueue()
        self._factory = self.get_task_factory()
        self.set_task_factory(_new_process_task)
        self._owners: dict[SimulatedTask[Any], SimulatedProcess] = {}

    def release(self, handles: list[asyncio.Handle]) -> None:
        """Let callbacks run that were held back."""
        self._ready.extend(handles)

    def _cancel_leftovers(self) -> None:
        # A paused process never runs what its cancelled tasks have to do, and the end waits for them.
        for process in dict.fromkeys(self._owners.values()):
            if process.is_paused:
                process.resume()
        super()._cancel_leftovers()

    def note_owner(self, task: Any, process: SimulatedProcess) -> None:
        """Remember whose task this is until it is done."""
        self._owners[task] = process
        task.add_done_callback(self._owners.pop)

    def tasks_of(self, process: SimulatedProcess) -> list[Any]:
        """Return the unfinished tasks of a process, in the order of their creation."""
        return [task for task, owner in self._owners.items() if owner is process]


def _new_process_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    assert isinstance(loop, ProcessLoop)
    assert loop._factory is not None
    task: asyncio.Task[Any] = loop._factory(loop, coro, **options)  # type: ignore[assignment]
    context = options.get("context")
    process = context.get(PROCESS) if context is not None else PROCESS.get()
    if process is not None:
        loop.note_owner(task, process)
    return task


def waits_in(task: asyncio.Task[Any]) -> str:
    """Return where a suspended task stands, from the outermost to the innermost call."""
    places: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None and hasattr(awaited, "cr_frame"):
        frame = awaited.cr_frame
        if frame is not None:
            places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return " > ".join(places)
