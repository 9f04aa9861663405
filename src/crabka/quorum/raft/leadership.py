"""A replica's leadership: from the start of its epoch to taking appends, and to its end.

A leader takes appends once everything before its epoch is committed and applied, as well as the first records of a new
or interrupted log. From then on it replays appends before they are written, in the order of the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.errors import CrabkaError, OperationError
from crabka.kraft.events import LogAppended
from crabka.kraft.messages import LogRange
from crabka.metadata.bootstrap import activation_records
from crabka.metadata.records import NoOpRecord, encode_record, record_version
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record

if TYPE_CHECKING:
    from crabka.kraft.actions import AppendControl
    from crabka.kraft.core import KraftCore
    from crabka.ports import Runtime
    from crabka.quorum.raft.applier import MetadataApplier
    from crabka.quorum.raft.log import RaftLog
    from crabka.quorum.storage import MetadataStorage


class _Waiter(NamedTuple):
    """A caller that waits until an offset is committed and applied."""

    last_offset: int
    done: asyncio.Future[int]


class RaftLeadership:
    """Appends of a leader and the callers that wait for them."""

    def __init__(
        self,
        runtime: Runtime,
        storage: MetadataStorage,
        applier: MetadataApplier,
        core: KraftCore,
        min_insync_replicas: int,
    ) -> None:
        self._runtime = runtime
        self._storage = storage
        self._applier = applier
        self._core = core
        self._min_insync_replicas = min_insync_replicas
        self._unwritten: list[bytes] = []
        self._waiters: deque[_Waiter] = deque()
        # End of the records that must be applied before appends are taken; None until they are written.
        self._opening_end: int | None = None
        self._last_append_ms = 0
        self.next_offset = storage.log.end_offset
        self.active_epoch: int | None = None
        self.listeners: list[tuple[Callable[[int], None], Callable[[], None]]] = []
        self.waiting_for_active: list[asyncio.Future[None]] = []

    @property
    def takes_appends(self) -> bool:
        """Whether this replica leads and may append.

        A leader that appended its own removal may not: it resigns as soon as that is committed, so the outcome of later
        records would be unknown. Earlier ones are committed with it.
        """
        core = self._core
        return self.active_epoch is not None and core.is_leader and core.is_voter and core.epoch == self.active_epoch

    @property
    def has_unwritten(self) -> bool:
        """Whether appends wait for the driver."""
        return bool(self._unwritten)

    @property
    def idle_deadline_ms(self) -> int | None:
        """When a leader without appends writes a no-op record (KIP-835)."""
        idle_ms = self._storage.settings.max_idle_interval_ms
        return self._last_append_ms + idle_ms if self.takes_appends and idle_ms > 0 else None

    def append(self, records: Sequence[Any], timeout_ms: int | None) -> asyncio.Future[int]:
        """Assign offsets to records and let the driver write them; the future returns the last offset once applied."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()
        if not self.takes_appends:
            done.set_exception(_not_controller())
            return done
        self._waiters.append(_Waiter(self._enqueue(records), done))
        if timeout_ms is not None:
            timer = loop.call_later(timeout_ms / 1000, _time_out, done, timeout_ms)
            done.add_done_callback(lambda _: timer.cancel())
        return done

    def take_unwritten(self) -> list[bytes]:
        """Return the batches that the driver must write now; they are already replayed."""
        batches, self._unwritten = self._unwritten, []
        if batches:
            self._applier.replay_ahead(batches)
        return batches

    def append_control(self, log: RaftLog, action: AppendControl, now_ms: int) -> LogAppended:
        """Append control records of the core, in order with the others."""
        appended = log.append_control(action, now_ms)
        if self._opening_end is not None:
            self._applier.replay_ahead([log.read(LogRange(action.base_offset, 1))])
        self.next_offset = log.end_offset
        return appended

    def maybe_append_idle(self, now_ms: int) -> bool:
        """Append a no-op record if it is due; return whether it was."""
        due_ms = self.idle_deadline_ms
        if due_ms is None or now_ms < due_ms:
            return False
        self._enqueue([NoOpRecord()])
        return True

    def update(self, log_end: int) -> None:
        """Become active if all conditions hold."""
        start = self._core.epoch_start_offset
        if start is None or self.active_epoch is not None:
            return
        applied = self._applier.applied_to
        if self._opening_end is None:
            if not (applied > start and applied == log_end):
                return
            self.next_offset = log_end
            records = self._opening_records()
            if records:
                self._enqueue(records)
            self._opening_end = self.next_offset
        if applied >= self._opening_end:
            self._activate()

    def settle(self, applied_to: int) -> None:
        """Complete appends whose records are applied."""
        while self._waiters and self._waiters[0].last_offset < applied_to:
            waiter = self._waiters.popleft()
            if not waiter.done.done():
                waiter.done.set_result(waiter.last_offset)

    def settle_active(self) -> None:
        """Notify callers that wait for this replica to be active, if it is."""
        if self.active_epoch is not None:
            waiting, self.waiting_for_active = self.waiting_for_active, []
            for done in waiting:
                if not done.done():
                    done.set_result(None)

    async def wait_settled(self, timeout_ms: int) -> None:
        """Wait for appends under way, at most for a while."""
        waiting = [waiter.done for waiter in self._waiters if not waiter.done.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=timeout_ms / 1000)

    def end(self) -> None:
        """End the leadership: the outcome of uncommitted records is unknown."""
        was_active, self.active_epoch = self.active_epoch is not None, None
        self._opening_end = None
        self._unwritten = []
        self._fail_appends(_not_controller())
        self._applier.forget_ahead()
        if was_active:
            for _, resigned in list(self.listeners):
                resigned()

    def fail_all(self, error: CrabkaError) -> None:
        """Fail all waiting callers."""
        self._fail_appends(error)
        for done in self.waiting_for_active:
            if not done.done():
                done.set_exception(error)
        self.waiting_for_active = []

    def _fail_appends(self, error: CrabkaError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done.done():
                waiter.done.set_exception(error)

    def _activate(self) -> None:
        self.active_epoch = self._core.epoch
        self._last_append_ms = self._runtime.clock.monotonic_ms()
        for active, _ in list(self.listeners):
            active(self.active_epoch)
        self.settle_active()

    def _opening_records(self) -> list[Any]:
        log_is_empty = self._applier.image.is_empty
        return activation_records(
            self._storage.read_bootstrap() if log_is_empty else [],
            log_is_empty=log_is_empty,
            in_transaction=self._applier.in_transaction,
            min_insync_replicas=self._min_insync_replicas,
        )

    def _enqueue(self, records: Sequence[Any]) -> int:
        """Build the batch of an append; return its last offset."""
        if not records:
            raise ValueError("an append needs at least one record")
        level = self._applier.image.features.metadata_version
        now_ms, base = self._runtime.clock.now_ms(), self.next_offset
        values = [encode_record(record, record_version(record, level)) for record in records]
        batch = build_batch(
            [Record(base + index, now_ms, None, value) for index, value in enumerate(values)],
            base_offset=base,
            leader_epoch=self._core.epoch,
        )
        self._unwritten.append(batch)
        self.next_offset = base + len(records)
        self._last_append_ms = self._runtime.clock.monotonic_ms()
        return self.next_offset - 1


def _not_controller() -> OperationError:
    return OperationError(ErrorCode.not_controller, "this node is not the active controller")


def _time_out(done: asyncio.Future[int], timeout_ms: int) -> None:
    if not done.done():
        message = f"the metadata change was not committed within {timeout_ms} ms"
        done.set_exception(OperationError(ErrorCode.request_timed_out, message))
