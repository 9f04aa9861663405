"""The core of one consumer group: `step(event, now_ms)` returns the actions for the shell (KIP-848).

Pure: no clock, no loop, no log. One batch of records is in flight at a time; later events wait for it. A refused event
is answered with Kafka's error code and changes nothing.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, assert_never

from crabka.broker.groups.consumer.assignment import GroupAssignment
from crabka.broker.groups.consumer.classic_members import ClassicMembers
from crabka.broker.groups.consumer.context import GroupContext
from crabka.broker.groups.consumer.deadlines import DeadlineKind, MemberDeadlines
from crabka.broker.groups.consumer.members import ConsumerMembers
from crabka.broker.groups.consumer.messages import (
    ConsumerAction,
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    CreationFailed,
    Downgraded,
    PersistBatch,
    RecordsStored,
)
from crabka.broker.groups.consumer.migration import upgrade_records
from crabka.broker.groups.consumer.offset_checks import OffsetChecks
from crabka.broker.groups.consumer.state import ConsumerGroupState
from crabka.broker.groups.consumer.store import GroupStore
from crabka.broker.groups.messages import (
    UNKNOWN_MEMBER,
    Answer,
    Heartbeat,
    Join,
    JoinResult,
    Leave,
    LeaveResult,
    Sync,
    SyncResult,
    Tick,
    Transitioned,
)
from crabka.broker.groups.records import group_key
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.groups.consumer.catalog import TopicCatalog
    from crabka.broker.groups.consumer.records import ConsumerRecord
    from crabka.broker.groups.consumer.settings import ConsumerSettings
    from crabka.broker.groups.consumer.state import ConsumerGroupData
    from crabka.broker.groups.membership import Membership
    from crabka.broker.groups.messages import GroupSnapshot

    Request = ConsumerHeartbeat | Join | Sync | Heartbeat | Leave


class ConsumerGroup:
    """One consumer group."""

    __slots__ = (
        "_classic_members",
        "_deferred",
        "_members",
        "context",
        "deadlines",
        "is_dead",
        "offset_checks",
        "origin",
        "store",
    )

    def __init__(self, group_id: str, catalog: TopicCatalog, settings_of: Callable[[str], ConsumerSettings]) -> None:
        self.context = GroupContext(group_id, catalog, settings_of)
        self.store = GroupStore()
        self.deadlines = MemberDeadlines(self.context)
        self.offset_checks = OffsetChecks(self.context, self.store)
        assignment = GroupAssignment(self.context, self.store, self.deadlines)
        self._members = ConsumerMembers(self.context, self.store, self.deadlines, assignment)
        self._classic_members = ClassicMembers(self.context, self.store, self.deadlines, assignment, self._members)
        self._deferred: deque[ConsumerEvent] = deque()
        self.is_dead = False
        # The classic group that this one replaces, until its first records are stored.
        self.origin: GroupSnapshot | None = None

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        """Return the id of the group."""
        return self.context.group_id

    @property
    def data(self) -> ConsumerGroupData:
        """Return the newest state, with a batch that may still fail."""
        return self.store.data

    @property
    def committed(self) -> ConsumerGroupData:
        """Return the stored state."""
        return self.store.committed

    @property
    def state(self) -> ConsumerGroupState:
        """Return the state that clients see."""
        return ConsumerGroupState.DEAD if self.is_dead else self.data.state

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members, whether or not the batch in flight is stored."""
        return not (self.data.members or self.committed.members)

    @property
    def exists(self) -> bool:
        """Return whether clients know the group, or may know it after the batch in flight."""
        return any(data.is_stored or data.members for data in (self.data, self.committed))

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member may consume a topic."""
        return any(topic in data.subscribed_topics for data in (self.data, self.committed))

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self, event: ConsumerEvent, now_ms: int) -> list[ConsumerAction]:
        """Process an event; return the actions that follow, in order."""
        out: list[ConsumerAction] = []
        if isinstance(event, RecordsStored):
            self._batch_stored(event.error_code, now_ms, out)
        else:
            self._deferred.append(event)
            if self.store.is_storing:
                self._keep_alive(event, now_ms)
        while self._deferred and not self.store.is_storing and not self.is_dead:
            self._take(self._deferred.popleft(), now_ms, out)
        return out

    def _keep_alive(self, event: ConsumerEvent, now_ms: int) -> None:
        """Extend the session of a member whose request has to wait."""
        member = self.data.members.get(getattr(event, "member_id", UNKNOWN_MEMBER))
        if member is not None and self.deadlines.is_set(DeadlineKind.SESSION, member.member_id):
            self.deadlines.extend_session(member, now_ms)

    def _take(self, event: ConsumerEvent, now_ms: int, out: list[ConsumerAction]) -> None:
        before = self.data.state
        match event:
            case Tick():
                reason = self._tick(now_ms)
            case RecordsStored():
                raise AssertionError("outcomes never wait")
            case _:
                reason = f"{type(event).__name__} of {getattr(event, 'member_id', 'members')}"
                try:
                    self.store.hold(Answer(event.reply, self._result(event, now_ms)))
                except OperationError as error:
                    self.store.abandon()
                    out.append(Answer(event.reply, _refusal(event, error)))
                    return
        pairs = self.store.take_batch()
        if not pairs:
            out += self.store.take_held()
            return
        after = self.data.state
        if after is not before:
            out.append(Transitioned(before.value, after.value, self.data.epoch, reason))
        out.append(PersistBatch(pairs))

    def _result(self, event: Request, now_ms: int) -> Any:
        match event:
            case ConsumerHeartbeat():
                return self._members.heartbeat(event, now_ms)
            case Join():
                return self._classic_members.join(event, now_ms)
            case Sync():
                return self._classic_members.sync(event, now_ms)
            case Heartbeat():
                return self._classic_members.heartbeat(event, now_ms)
            case Leave():
                return self._classic_members.leave(event, now_ms)
            case _:
                assert_never(event)

    def _tick(self, now_ms: int) -> str:
        reasons = []
        members = {}
        for kind, member_id in self.deadlines.take_due(now_ms):
            member = self.data.members.get(member_id)
            if member is not None:
                members[member_id] = member
                reasons.append(f"{member_id} is removed because {kind.value}")
        if members:
            self._members.fence(list(members.values()), now_ms)
        self.deadlines.update_first()
        return "; ".join(reasons)

    def _batch_stored(self, error_code: ErrorCode, now_ms: int, out: list[ConsumerAction]) -> None:
        is_creating = self.origin is not None or self.store.is_creating
        out += self.store.finish(error_code)
        if error_code is ErrorCode.none:
            if self.origin is not None:
                # Members of the classic group may be dead already: their sessions start here.
                self.origin = None
                self.deadlines.start_missing_sessions(self.data.members.values(), now_ms)
            self.is_dead = self.is_dead or any(isinstance(each, Downgraded) for each in out)
            return
        self.deadlines.start_missing_sessions(self.data.members.values(), now_ms)
        if is_creating:
            self.is_dead = True
            out.append(CreationFailed())

    # -- requests that wait --------------------------------------------------------------------------------------

    def withdraw(self, event: Request) -> None:
        """Remove a request that still waits, because it has been answered."""
        with suppress(ValueError):
            self._deferred.remove(event)

    def refuse(self, event: Request, error_code: ErrorCode) -> Any:
        """Return the answer to a request with an error."""
        return _refusal(event, OperationError(error_code))

    def take_deferred(self) -> list[Request]:
        """Remove and return the requests that still wait, which this group will not answer."""
        waiting = [each for each in self._deferred if not isinstance(each, Tick | RecordsStored)]
        self._deferred.clear()
        return waiting

    # -- life ----------------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        """Apply a record of the log."""
        self.data.apply(record)

    def loaded(self, now_ms: int) -> None:
        """Start to run after a replay: every member has a full session."""
        self.deadlines.clear()
        self.deadlines.start_missing_sessions(self.data.members.values(), now_ms)

    def upgrade(self, classic: Membership) -> None:
        """Begin with the state of a classic group; stored with the first step.

        Raises OperationError: GROUP_ID_NOT_FOUND if the metadata of a member cannot be read.
        """
        records = upgrade_records(classic, self.context.catalog) if classic.members else []
        self.origin = classic.snapshot(classic.assignments())
        self.store.write_pair((group_key(self.group_id), None))
        for record in records:
            self.store.write(record)

    def retire(self, error_code: ErrorCode) -> list[Answer]:
        """End the group on this node: waiting requests are answered with the error."""
        self.is_dead = True
        waiting = [Answer(each.reply, self.refuse(each, error_code)) for each in self.take_deferred()]
        return [*(each for each in self.store.finish(error_code) if isinstance(each, Answer)), *waiting]

    def tombstones(self) -> Iterable[ConsumerRecord]:
        """Return the records that remove the group."""
        return self.data.tombstones(self.group_id)


def _refusal(event: Request, error: OperationError) -> Any:
    match event:
        case ConsumerHeartbeat():
            return ConsumerHeartbeatResult(error.error_code, str(error) or None)
        case Join():
            return JoinResult(error.error_code, event.member_id)
        case Sync():
            return SyncResult(error.error_code)
        case Leave():
            return LeaveResult(error.error_code)
        case _:
            return error.error_code
