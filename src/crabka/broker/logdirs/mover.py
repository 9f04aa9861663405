"""Carries out one move: `MovePlan` decides, here the disks, the controller and the partition are asked.

One task per move. Work of the disks runs in threads and is always waited for; waiting for anything else (the throttle,
the controller, the turn to append) ends when something from outside comes in: a cancellation, a dir that failed, the
end of the partition or of the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from crabka.broker.logdirs import move_events as events
from crabka.broker.logdirs.disk_errors import SourceChangedError, has_no_room
from crabka.broker.logdirs.future_log import MAX_STEP_BYTES, FutureLog
from crabka.broker.logdirs.move_events import Finish, MoveAction, MoveEvent
from crabka.broker.logdirs.move_journal import MoveMarker
from crabka.broker.logdirs.move_plan import MovePlan
from crabka.broker.logdirs.swap import SwapFiles
from crabka.errors import CorruptDataError, StorageError

if TYPE_CHECKING:
    from crabka.broker.logdirs.future_log import CopyStep
    from crabka.broker.logdirs.move_host import MoveHost
    from crabka.broker.partition.partition import Partition

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Appends wait while the rest is copied and synced; a copy that is that far is caught up.
_SPAN_MS: Final = 1000


class Mover:
    """One move of one partition from where it lies to another log dir."""

    def __init__(self, host: MoveHost, partition: Partition, future_path: str) -> None:
        self.partition = partition
        self.source_dir = partition.log.log_dir
        self.copy = FutureLog(host.runtime.fs, partition.log, future_path)
        self.target_dir = self.copy.target_dir
        self.plan = MovePlan()
        self.started_ms = host.runtime.clock.monotonic_ms()
        self._host = host
        self._log = partition.log
        self._swap = SwapFiles(
            host.runtime.fs,
            host.runtime.failpoints,
            self._log.topic_partition,
            source=self._log.path,
            future=future_path,
        )
        self._inbox: deque[MoveEvent] = deque()
        self._arrival = asyncio.Event()
        self._turn: contextlib.AsyncExitStack | None = None
        self._rate = _Rate()

    # -- from outside --------------------------------------------------------------------------------------------

    def post(self, event: MoveEvent) -> None:
        """Pass an external event to the move."""
        self._inbox.append(event)
        self._arrival.set()

    @property
    def bytes_per_second(self) -> float:
        """How fast the copy has grown lately."""
        return self._rate.per_second(self._host.runtime.clock.monotonic_ms())

    # -- the task ------------------------------------------------------------------------------------------------

    async def run(self, slot: asyncio.Semaphore) -> Finish:
        """Move; return how it ended. `slot` bounds how many moves copy at a time."""
        topic_partition = self._log.topic_partition
        async with contextlib.AsyncExitStack() as cleanup:
            todo: deque[events.Todo] = deque(self.plan.begin(self._now_ms()))
            # Before it waits: a start that follows goes on with it.
            await self._do(self.copy.open)
            self._hit("move.after_future_created")
            if await self._or_news(slot.acquire()):
                cleanup.callback(slot.release)
                cleanup.callback(self._host.cleaner.resume, topic_partition)
                await self._host.cleaner.pause(topic_partition)
                self._log.moving.mirror = self.copy
                cleanup.callback(self._forget_copy)
                cleanup.push_async_callback(self._host.logs.end_transit, self._log)
                cleanup.push_async_callback(self._release)
            return await self._work_through(todo)

    def _forget_copy(self) -> None:
        if self._log.moving.mirror is self.copy:
            self._log.moving.mirror = None

    async def _work_through(self, todo: deque[events.Todo]) -> Finish:
        while True:
            if self._inbox and todo[0] in events.WORK:
                event = self._inbox.popleft()
                following = self.plan.step(event, self._now_ms())
                if following:
                    todo = deque(following)
                continue
            action = todo.popleft()
            if isinstance(action, Finish):
                return action
            try:
                result = await _STEPS[action](self)
            except StorageError as error:
                # The little that is read on the loop.
                self._on_storage_error(error)
                result = None
            if result is not None:
                todo.extend(self.plan.step(result, self._now_ms()))
            elif action in events.WORK:
                # Again, unless what came in changes that.
                todo.appendleft(action)

    # -- copying -------------------------------------------------------------------------------------------------

    async def _copy_more(self) -> MoveEvent | None:
        throttle = self._host.throttle
        wait_ms = throttle.wait_ms(self._now_ms())
        if wait_ms > 0:
            if await self._or_news(asyncio.sleep(wait_ms / 1000, result=True)) is None:
                return None
            return events.Copied(self.copy.remaining_bytes, is_caught_up=False)
        step = self.copy.next_step(throttle.step_bytes(MAX_STEP_BYTES))
        if step is not None and not await self._run_step(step):
            return None
        self._hit("move.after_copied")
        return events.Copied(self.copy.remaining_bytes, is_caught_up=step is None)

    async def _run_step(self, step: CopyStep) -> bool:
        """Run a step and note what it did; return False if a disk failed, which is in the inbox then."""
        begun_ms = self._now_ms()
        try:
            written = await self._try(step.run)
        except SourceChangedError:
            return True
        if written is None:
            return False
        self._host.throttle.pay(written, begun_ms)
        self._rate.add(written, self._now_ms())
        self.copy.bytes_written += written
        self.copy.note(step)
        return True

    async def _sync(self) -> MoveEvent | None:
        self._hit("move.before_synced")
        if not await self._run_step(self.copy.sync_step()):
            return None
        self._hit("move.after_synced")
        return events.Synced(self.copy.remaining_bytes)

    # -- the controller ------------------------------------------------------------------------------------------

    async def _assign(self) -> MoveEvent | None:
        self._hit("move.before_assigned")
        if await self._or_news(self._assign_to(self.target_dir)) is None:
            return None
        self._hit("move.after_assigned")
        return events.Assigned()

    async def _assign_back(self) -> MoveEvent | None:
        if await self._or_news(self._assign_to(self.source_dir)) is None:
            return None
        return events.AssignedBack()

    async def _assign_to(self, log_dir: str) -> bool:
        await self._host.assignments.assign(self.partition, log_dir)
        return True

    # -- the swap ------------------------------------------------------------------------------------------------

    async def _write_marker(self) -> MoveEvent | None:
        log, directory_id = self._log, self._host.logs.directory_id
        marker = MoveMarker(
            log.topic_partition,
            log.topic_id,
            directory_id(self.source_dir),
            directory_id(self.target_dir),
            self.copy.path.rpartition("/")[2],
        )
        unique = self._host.runtime.new_uuid()
        # Before appends wait: what the checkpoints of the target say must be there before the log is.
        await self._host.logs.begin_transit(self._log, self.target_dir)
        if not await self._do(partial(self._swap.mark, marker, unique)):
            return None
        return events.Marked()

    async def _hold(self) -> MoveEvent | None:
        turn = contextlib.AsyncExitStack()
        if await self._or_news(self._enter(turn)) is None:
            await turn.aclose()
            return None
        self._turn = turn
        self._log.moving.is_held = True
        turn.callback(self._let_go)
        self._hit("move.after_held")
        return events.Held(self.copy.remaining_bytes)

    async def _enter(self, turn: contextlib.AsyncExitStack) -> bool:
        partition = self.partition
        await turn.enter_async_context(partition.queue.turn())
        while self._log.is_being_written:
            # A write that its task was cancelled from.
            await partition.writer.drain()
        return True

    def _let_go(self) -> None:
        self._log.moving.is_held = False

    async def _release(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.aclose()
            self._hit("move.after_released")

    async def _copy_tail(self) -> MoveEvent | None:
        while (step := self.copy.next_step()) is not None:
            if not await self._run_step(step) or self._inbox:
                return None
        if not await self._run_step(self.copy.sync_step()):
            return None
        self._hit("move.after_tail_copied")
        # Until the copy has its final name, whatever came in is heard first.
        return None if self._inbox else events.TailCopied()

    async def _rename_future(self) -> MoveEvent | None:
        if not await self._do(self._swap.rename_future):
            return None
        return events.FutureRenamed()

    async def _reopen(self) -> MoveEvent | None:
        log, logs = self._log, self._host.logs
        try:
            handle = await self._host.runtime.threads.submit(log.moving.open_copy, self._swap.final_path)
        except (OSError, CorruptDataError) as error:
            return events.ReopenFailed(str(error))
        if logs.get(log.topic_partition) is not log:
            self.post(events.Stopped())
        if self._inbox:
            # It is deleted, or a disk failed: that comes first.
            return None
        log.moving.rehome(self._swap.final_path, handle)
        self.partition.writer = logs.writer(self.target_dir)
        self._hit("move.after_reopened")
        return events.Reopened()

    async def _retire_source(self) -> MoveEvent | None:
        runtime = self._host.runtime
        unique = runtime.new_uuid()
        doomed = await self._try(lambda: self._swap.retire_source(unique))
        if doomed is None:
            return None
        due_ms = runtime.clock.now_ms() + self._log.config.file_delete_delay_ms
        self._host.logs.schedule_removal(doomed, due_ms)
        return events.SourceRetired()

    async def _clear_marker(self) -> MoveEvent | None:
        host = self._host
        await host.logs.end_transit(self._log)
        with contextlib.suppress(OSError):
            # A log whose clean end is not known is cleaned from its start once more.
            await host.cleaner.save_checkpoints([self.target_dir, self.source_dir])
        await self._unmark()
        return events.MarkerRemoved()

    async def _unmark(self) -> None:
        await self._do(self._swap.unmark)

    async def _rename_back(self) -> None:
        await self._do(self._swap.rename_back)
        await self._host.logs.end_transit(self._log)

    async def _delete_future(self) -> None:
        await self._host.logs.end_transit(self._log)
        unique = self._host.runtime.new_uuid()
        doomed = await self._try(lambda: self.copy.discard(unique))
        self._remove_soon(doomed)
        self._hit("move.after_future_deleted")

    async def _delete_final(self) -> None:
        unique = self._host.runtime.new_uuid()
        self._remove_soon(await self._try(lambda: self._swap.delete_final(unique)))

    def _remove_soon(self, doomed: str | None) -> None:
        if doomed is not None:
            self._host.logs.schedule_removal(doomed, self._host.runtime.clock.now_ms())

    # -- helpers -------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], None]) -> bool:
        """Like `_try` for work without a result; return whether it was done."""
        return await self._try(partial(_done, work)) is not None

    async def _try(self, work: Callable[[], T]) -> T | None:
        """Do work in a thread. If a disk fails, its dir goes offline, which comes back as an event: then None."""
        future = self._host.runtime.threads.submit(work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # Nothing may be written any more once the task is gone.
            await asyncio.wait([future])
            raise
        except StorageError as error:
            self._on_storage_error(error)
            return None

    def _on_storage_error(self, error: StorageError) -> None:
        if error.log_dir == self.target_dir and has_no_room(error) and self.plan.can_turn_back:
            self.post(events.TargetFull(str(error)))
            return
        self._host.logs.on_dir_failure(error.log_dir, error)
        failed = events.TargetFailed if error.log_dir == self.target_dir else events.SourceFailed
        if not any(isinstance(each, failed) for each in self._inbox):
            self.post(failed(str(error)))

    async def _or_news(self, waiting: Awaitable[T]) -> T | None:
        """Wait for something, but not longer than until there is something in the inbox: then None."""
        task = asyncio.ensure_future(waiting)
        news = asyncio.ensure_future(self._news())
        try:
            await asyncio.wait([task, news], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, news):
                each.cancel()
            await asyncio.wait([task, news])

    async def _news(self) -> None:
        while not self._inbox:
            self._arrival.clear()
            await self._arrival.wait()

    def _now_ms(self) -> int:
        return self._host.runtime.clock.monotonic_ms()

    def _hit(self, name: str) -> None:
        self._host.runtime.failpoints.hit(name)


_STEPS: Final[dict[MoveAction, Callable[[Mover], Awaitable[Any]]]] = {
    MoveAction.COPY: Mover._copy_more,
    MoveAction.SYNC: Mover._sync,
    MoveAction.ASSIGN: Mover._assign,
    MoveAction.WRITE_MARKER: Mover._write_marker,
    MoveAction.HOLD: Mover._hold,
    MoveAction.COPY_TAIL: Mover._copy_tail,
    MoveAction.RENAME_FUTURE: Mover._rename_future,
    MoveAction.REOPEN: Mover._reopen,
    MoveAction.RETIRE_SOURCE: Mover._retire_source,
    MoveAction.CLEAR_MARKER: Mover._clear_marker,
    MoveAction.ASSIGN_BACK: Mover._assign_back,
    MoveAction.RELEASE: Mover._release,
    MoveAction.DROP_MARKER: Mover._unmark,
    MoveAction.RENAME_BACK: Mover._rename_back,
    MoveAction.DELETE_FUTURE: Mover._delete_future,
    MoveAction.DELETE_FINAL: Mover._delete_final,
}


def _done(work: Callable[[], None]) -> bool:
    work()
    return True


class _Rate:
    """Bytes per second over the last second or two."""

    __slots__ = ("_before", "_bytes", "_start_ms")

    def __init__(self) -> None:
        self._start_ms = 0
        self._bytes = 0
        self._before = 0.0

    def add(self, size: int, now_ms: int) -> None:
        """Count bytes."""
        self._turn(now_ms)
        self._bytes += size

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        self._turn(now_ms)
        elapsed_ms = now_ms - self._start_ms
        return self._before if elapsed_ms < _SPAN_MS // 2 else self._bytes * 1000 / elapsed_ms

    def _turn(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._start_ms
        if elapsed_ms >= _SPAN_MS:
            self._before = self._bytes * 1000 / elapsed_ms if self._start_ms else 0.0
            self._start_ms, self._bytes = now_ms, 0
