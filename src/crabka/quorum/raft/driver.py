"""The task that owns the consensus core and executes its actions.

It takes events one by one, executes the actions of a step in order and all of them before the next step, and sleeps
until the next event or the core's next deadline. Slow work (requests to others, the sync of the log, snapshots) runs in
tasks, and its result is a later event. After a failure of the disk or of an invariant the core is not stepped again:
the replica has failed and its owner is notified once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.errors import CrabkaError, InvariantError, StorageError
from crabka.kraft.actions import (
    Action,
    AdvanceHighWatermark,
    AppendControl,
    AppendRecords,
    ElectionState,
    InstallSnapshot,
    PersistElection,
    Reply,
    RoleChanged,
    Send,
    SettleLoss,
    TruncateLog,
    Warn,
    WriteSnapshotChunk,
)
from crabka.kraft.core import KraftCore, snapshot_content
from crabka.kraft.events import (
    Event,
    LogFlushed,
    LogPruned,
    RequestReceived,
    ResignRequested,
    ShutdownRequested,
    SnapshotInstalled,
    TimePassed,
)
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import FetchSnapshotResponse, Request, Response
from crabka.kraft.roles import RoleName
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.healing.scrubber import LogAccess, MetadataScrubber
from crabka.quorum.raft.answers import WireAnswer, fill_response
from crabka.quorum.raft.applier import MetadataApplier
from crabka.quorum.raft.leadership import RaftLeadership
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.role_log import RoleLog
from crabka.quorum.raft.sender import NetworkDialer, RaftSender
from crabka.quorum.raft.state_file import ElectionFile
from crabka.quorum.raft.watch import QuorumWatch
from crabka.quorum.snapshots.keeper import CommittedMetadata, SnapshotKeeper
from crabka.quorum.storage import MetadataStorage
from crabka.runtime.task_scope import TaskScope

if TYPE_CHECKING:
    from crabka.ports import Runtime
    from crabka.quorum.snapshots.files import SnapshotId

logger = logging.getLogger(__name__)
Token = WireAnswer | asyncio.Future[Any]


class _FlushDone(NamedTuple):
    """A sync of the log that counts unless the log was truncated since."""

    generation: int
    end_offset: int


class RaftReplicaFiles(NamedTuple):
    """The opened files of a replica and the core made of them."""

    storage: MetadataStorage
    log: RaftLog
    core: KraftCore
    election: ElectionFile


class RaftDriver:
    """Runs one replica; `start` it, `put` events, `stop` it."""

    def __init__(self, runtime: Runtime, files: RaftReplicaFiles, options: QuorumOptions) -> None:
        storage, log, core, self.election_file = files
        self._runtime = runtime
        self._storage = storage
        self.core = core
        self._options = options
        self._log = log
        self.applier = MetadataApplier(storage)
        self.applier.on_settled = self._on_settled
        self.leading = RaftLeadership(runtime, storage, self.applier, core, options.min_insync_replicas)
        self.watch = QuorumWatch(core, self.applier, self.leading)
        dialer = options.dialer or NetworkDialer(
            runtime.network, f"raft-client-{storage.properties.node_id}", options.security
        )
        self._sender = RaftSender(dialer, options.kraft.request_timeout_ms)
        self._tasks = TaskScope(self._on_task_failure)
        self._log_in_use = asyncio.Lock()
        self.snapshots = SnapshotKeeper(
            runtime,
            storage,
            self._log_in_use,
            source=CommittedMetadata(lambda: self.applier.image, lambda snapshot: snapshot_content(core, snapshot)),
            on_change=self._on_snapshots_changed,
        )
        self.scrubber = MetadataScrubber(
            runtime,
            storage,
            self.snapshots,
            LogAccess(self._log_in_use, self._wait_flushed, self._on_uncommitted_damage),
            settings=lambda: options.scrub,
        )
        log.on_damage = self.scrubber.suspect
        self._events: deque[Event | _FlushDone] = deque([TimePassed()])
        self._wake = asyncio.Event()
        self._asked: set[Token] = set()
        self._flush: asyncio.Future[int] | None = None
        self._flushed_to = self._log.end_offset
        self._log_generation = 0
        self._looking_for: int | None = None
        self._role_log = RoleLog(logger, runtime.clock)
        self.closing = False
        self.failure: CrabkaError | None = None
        self.task: asyncio.Task[None] | None = None
        # Called once when the replica fails: the node must stop.
        self.on_failure: Callable[[CrabkaError], None] | None = None

    def start(self) -> None:
        """Start to take part in the quorum."""
        self.task = asyncio.create_task(self._run(), name="metadata-quorum")
        self._tasks.start(self.scrubber.run())

    @property
    def log_cuts(self) -> tuple[int, int]:
        """How many times, and how many bytes, opening cut off the log."""
        return self._log.cuts

    @property
    def set_aside_count(self) -> int:
        """How many damaged snapshots the start set aside."""
        return self._storage.set_aside_count

    @property
    def is_over(self) -> bool:
        """Whether nothing is stepped any more."""
        return self.failure is not None or self.task is None or self.task.done()

    def put(self, event: Event | _FlushDone) -> None:
        """Queue an event for the core."""
        self._events.append(event)
        self._wake.set()

    def wake(self) -> None:
        """Wake the driver to write appends."""
        self._wake.set()

    def ask(self, token: Token, done: asyncio.Future[Any], request: Request) -> None:
        """Pass a request to the core; its token is kept until it is answered or the client is gone."""
        self._asked.add(token)
        done.add_done_callback(lambda _: self._asked.discard(token))
        self.put(RequestReceived(token, request))

    async def verify_election_file(self) -> str:
        """Rewrite the election state if its file is damaged; return its fault, or "". Raises OSError."""
        if self.is_over or self.closing:
            return ""
        return await self._runtime.threads.submit(self.election_file.verify)

    async def stop(self, reason: CrabkaError) -> None:
        """Hand leadership over and close the files; waiting requests fail with `reason`."""
        if self.closing:
            return
        if not self.is_over and self.task is not None:
            await self.leading.wait_settled(self._options.kraft.request_timeout_ms)
            self.closing = True
            self.put(ShutdownRequested())
            await asyncio.wait([self.task], timeout=self._options.kraft.request_timeout_ms / 1000)
            if not self.task.done():
                self.task.cancel()
                await asyncio.wait([self.task])
        self.closing = True
        await self._tasks.close()
        await self._sender.close()
        await self.snapshots.close()
        self._end_waits(reason)
        # The thread of a cancelled task still runs: an election or a truncation must not reach the files later.
        await self._runtime.threads.wait_submitted()
        if self.failure is None:
            await self._runtime.threads.submit(self._storage.close)

    def _end_waits(self, error: CrabkaError) -> None:
        """Fail all waiting requests."""
        self.leading.fail_all(error)
        self.watch.fail(error)
        for token in list(self._asked):
            if isinstance(token, WireAnswer):
                token.refuse(ErrorCode.broker_not_available)
            elif not token.done():
                token.set_exception(error)

    async def _run(self) -> None:
        try:
            while not (self.closing and self.core.may_stop and not self._events):
                if self._events:
                    await self._handle_event(self._events.popleft())
                elif self.leading.has_unwritten or self.applier.is_behind:
                    await self._handle_event(None)
                else:
                    await self._wait()
        except OSError as error:
            self._fail(StorageError(self._storage.directory, f"cannot write the metadata log: {error}"))
        except CrabkaError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("The driver of the metadata quorum failed")
            self._fail(InvariantError(f"the driver of the metadata quorum failed: {error!r}"))

    async def _wait(self) -> None:
        """Wait for an event or the next deadline, of the core or of the idle record."""
        self._wake.clear()
        now_ms = self._runtime.clock.monotonic_ms()
        times = [self.core.next_deadline_ms, self.leading.idle_deadline_ms]
        due_ms = min((time for time in times if time is not None), default=None)
        if due_ms is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(0, due_ms - now_ms) / 1000, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        now_ms = self._runtime.clock.monotonic_ms()
        if now_ms >= due_ms and not self.leading.maybe_append_idle(now_ms):
            self._events.append(TimePassed())

    async def _handle_event(self, event: Event | _FlushDone | None) -> None:
        async with self._log_in_use:
            # Appends first: their offsets are assigned, and the core must not use them for its own records.
            batches = self.leading.take_unwritten()
            if batches:
                await self._step(self._log.append_batches(batches, self._runtime.clock.now_ms()))
            if isinstance(event, _FlushDone):
                event = LogFlushed(event.end_offset) if event.generation == self._log_generation else None
            if event is not None:
                await self._step(event)
            self.applier.go_on()
            self.leading.settle(self.applier.settled_to)
            self.leading.update(self._log.end_offset)
            self.watch.update()
            self._maybe_flush()
        self.snapshots.maybe_start()
        if self.applier.is_behind:
            # A long log is applied in slices, between other events.
            await asyncio.sleep(0)

    async def _step(self, event: Event) -> None:
        """Step an event and the events that must follow at once."""
        events = deque([event])
        while events:
            for action in self.core.step(events.popleft(), self._runtime.clock.monotonic_ms()):
                await self._carry_out(action, events)

    async def _carry_out(self, action: Action, events: deque[Event]) -> None:
        match action:
            case PersistElection(state, then):
                await self._persist(state)
                for inner in then:
                    await self._carry_out(inner, events)
            case Send():
                self._tasks.start(self._send(action))
            case Reply(token, response):
                self._reply(token, response)
            case AppendControl() | AppendRecords() | TruncateLog() | InstallSnapshot():
                events.append(await self._change_log(action))
            case WriteSnapshotChunk(snapshot, position, data):
                self._log.write_chunk(snapshot, position, data)
            case SettleLoss(end):
                await self._settle_loss(end)
            case AdvanceHighWatermark(offset):
                self.applier.advance(offset)
                self.leading.settle(self.applier.settled_to)
            case RoleChanged():
                self._on_role(action)
            case Warn(message):
                logger.warning("%s", message)

    async def _persist(self, state: ElectionState) -> None:
        await self._runtime.threads.submit(self.election_file.write, state)

    async def _settle_loss(self, end: OffsetAndEpoch) -> None:
        await self._wait_flushed()
        await self._runtime.threads.submit(self._log.settle)
        logger.warning(
            "A leader has restored the metadata log up to %s: this replica takes part in elections again", end
        )

    async def _change_log(self, action: AppendControl | AppendRecords | TruncateLog | InstallSnapshot) -> Event:
        now_ms = self._runtime.clock.now_ms()
        match action:
            case AppendControl():
                return self.leading.append_control(self._log, action, now_ms)
            case AppendRecords():
                return self._log.append_fetched(action, now_ms)
            case _:
                # A sync under way must end first; its result no longer counts for the changed log.
                await self._wait_flushed()
                self._log_generation += 1
        if isinstance(action, TruncateLog):
            truncated = await self._runtime.threads.submit(self._log.truncate, action.end_offset, now_ms)
            self._flushed_to = truncated.end_offset
            return truncated
        outcome = await self._runtime.threads.submit(self._log.install, action.snapshot, now_ms)
        if isinstance(outcome, SnapshotInstalled):
            self._flushed_to = outcome.snapshot.offset
            self.applier.adopt_snapshot()
        return outcome

    async def _wait_flushed(self) -> None:
        """Wait for a sync under way; none begins while the caller holds the log."""
        if self._flush is not None:
            await asyncio.wait([self._flush])

    def _on_uncommitted_damage(self) -> None:
        """Resign: this replica cannot send its damaged records, so they would never be committed."""
        if self.core.is_leader and len(self.core.voters) > 1:
            self.put(ResignRequested(self.core.epoch))

    def _maybe_flush(self) -> None:
        """Start a sync if there are unsynced writes and no sync is under way; it covers all earlier writes."""
        if self._flush is None and self._log.end_offset > self._flushed_to:
            generation, flush = self._log_generation, self._log.begin_flush()
            self._flushed_to = flush.end_offset
            self._flush = self._runtime.threads.submit(flush.run)
            self._flush.add_done_callback(lambda done: self._on_flushed(generation, done))

    def _on_flushed(self, generation: int, done: asyncio.Future[int]) -> None:
        self._flush = None
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._on_task_failure(error)
            return
        self.put(_FlushDone(generation, done.result()))

    async def _send(self, action: Send) -> None:
        outcome, broke = await self._sender.send_watched(action)
        self.put(outcome)
        peer = action.to
        if broke and peer.node_id == self.core.leader.leader_id and self._looking_for != peer.node_id:
            self._looking_for = peer.node_id
            try:
                lost = await self._sender.look_for(peer)
            finally:
                self._looking_for = None
            if lost is not None:
                self.put(lost)

    def _reply(self, token: object, response: Response) -> None:
        if isinstance(response, FetchSnapshotResponse) and response.size and not response.position:
            # Verify it as well: the fetching replica refuses a damaged snapshot.
            self.scrubber.suspect(f"snapshot {response.snapshot} is fetched")
        response = fill_response(self._log, response, self._runtime.clock)
        if isinstance(token, WireAnswer):
            token.give(response)
        elif isinstance(token, asyncio.Future) and not token.done():
            token.set_result(response)

    def _on_role(self, change: RoleChanged) -> None:
        self._role_log.note(change)
        if change.before is RoleName.LEADER:
            self.leading.end()

    def _on_settled(self, error: BaseException | None) -> None:
        if error is not None:
            self._on_task_failure(error)
        else:
            self.leading.settle(self.applier.settled_to)

    def _on_snapshots_changed(self, pruned: SnapshotId | None) -> None:
        self._log.refresh_snapshots()
        if pruned is not None:
            self.put(LogPruned(self._log.start_offset))

    def _on_task_failure(self, error: BaseException) -> None:
        if isinstance(error, OSError):
            error = StorageError(self._storage.directory, f"cannot write the metadata log: {error}")
        self._fail(error if isinstance(error, CrabkaError) else InvariantError(f"the quorum failed: {error!r}"))
        if self.task is not None:
            self.task.cancel()

    def _fail(self, error: CrabkaError) -> None:
        if self.failure is not None:
            return
        logger.critical("The metadata quorum failed: %s", error)
        self.failure = error
        self._end_waits(error)
        if self.on_failure is not None:
            self.on_failure(error)
