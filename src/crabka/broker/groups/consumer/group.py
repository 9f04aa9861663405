"""The core of one consumer group: `step(event, now_ms)` returns what the shell has to do (KIP-848).

Pure: no clock, no loop, no log. One batch of records is on its way at a time; whatever comes meanwhile waits. A
refused event is answered with Kafka's error code and changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, assert_never

from crabka.broker.groups.consumer.classic_members import ClassicMembers
from crabka.broker.groups.consumer.messages import (
    ConsumerAction,
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    Downgraded,
    RecordsStored,
)
from crabka.broker.groups.consumer.migration import upgrade_records
from crabka.broker.groups.consumer.stored_group import DeadlineKind
from crabka.broker.groups.member import NEVER
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
)
from crabka.broker.groups.records import group_key
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.groups.classic_group import ClassicGroup
    from crabka.broker.groups.consumer.records import ConsumerRecord

    Request = ConsumerHeartbeat | Join | Sync | Heartbeat | Leave

# Clients since OffsetCommit v9 may speak the consumer protocol.
FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH = 9


class ConsumerGroup(ClassicMembers):
    """One consumer group."""

    __slots__ = ()

    def step(self, event: ConsumerEvent, now_ms: int) -> list[ConsumerAction]:
        """Take an event in; return the actions that follow, in order."""
        out: list[ConsumerAction] = []
        if isinstance(event, RecordsStored):
            self.batch_stored(event.error_code, now_ms, out)
            self.is_dead = self.is_dead or any(isinstance(each, Downgraded) for each in out)
        else:
            self._deferred.append(event)
            if self.is_storing:
                self._heard_of(event, now_ms)
        while self._deferred and not self.is_storing and not self.is_dead:
            self._take(self._deferred.popleft(), now_ms, out)
        return out

    def _heard_of(self, event: ConsumerEvent, now_ms: int) -> None:
        """Let the session of a member go on though its request has to wait."""
        member = self.data.members.get(getattr(event, "member_id", UNKNOWN_MEMBER))
        if member is not None and (DeadlineKind.SESSION, member.member_id) in self.deadlines:
            self.extend_session(member, now_ms)

    def withdraw(self, event: Request) -> None:
        """Forget a request that still waits: its sender has been told to come back."""
        with suppress(ValueError):
            self._deferred.remove(event)

    def _take(self, event: ConsumerEvent, now_ms: int, out: list[ConsumerAction]) -> None:
        before = self.state
        match event:
            case Tick():
                reason = self._tick(now_ms)
            case RecordsStored():
                raise AssertionError("outcomes never wait")
            case _:
                reason = f"{type(event).__name__} of {getattr(event, 'member_id', 'members')}"
                try:
                    self.hold(Answer(event.reply, self._result(event, now_ms)))
                except OperationError as error:
                    self.abandon_batch()
                    out.append(Answer(event.reply, _refusal(event, error)))
                    return
        self.close_batch(before, reason, out)

    def _result(self, event: Request, now_ms: int) -> Any:
        match event:
            case ConsumerHeartbeat():
                return self.consumer_heartbeat(event, now_ms)
            case Join():
                return self.classic_join(event, now_ms)
            case Sync():
                return self.classic_sync(event, now_ms)
            case Heartbeat():
                return self.classic_heartbeat(event, now_ms)
            case Leave():
                return self.classic_leave(event, now_ms)
            case _:
                assert_never(event)

    def _tick(self, now_ms: int) -> str:
        due = [key for key, deadline_ms in self.deadlines.items() if deadline_ms <= now_ms]
        reasons = []
        members = {}
        for kind, member_id in due:
            del self.deadlines[kind, member_id]
            member = self.data.members.get(member_id)
            if member is not None:
                members[member_id] = member
                reasons.append(f"{member_id} is removed because {kind.value}")
        if members:
            self.fence(list(members.values()), now_ms)
        self.deadline_ms = min(self.deadlines.values(), default=NEVER)
        return "; ".join(reasons)

    def retire(self, error_code: ErrorCode) -> list[ConsumerAction]:
        """End the group on this node: whoever waits is told to look elsewhere."""
        self.is_dead = True
        out: list[ConsumerAction] = []
        waiting = [Answer(each.reply, _refusal(each, OperationError(error_code))) for each in self.take_deferred()]
        self.batch_stored(error_code, 0, out)
        return [*(each for each in out if isinstance(each, Answer)), *waiting]

    def refuse(self, event: Request, error_code: ErrorCode) -> Any:
        """Return the answer that tells a request of an error."""
        return _refusal(event, OperationError(error_code))

    def take_deferred(self) -> list[Request]:
        """Return the requests that still wait, which this group will not answer any more."""
        waiting = [each for each in self._deferred if not isinstance(each, Tick | RecordsStored)]
        self._deferred.clear()
        return waiting

    # -- life ----------------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        """Take over a record of the log."""
        self.data.apply(record)

    def loaded(self, now_ms: int) -> None:
        """Begin to run what was replayed: every member has a whole session to be heard of."""
        self.deadlines.clear()
        self.arm_sessions(now_ms)

    def upgrade(self, classic: ClassicGroup) -> None:
        """Begin as what a classic group is now; stored with the first step.

        Raises OperationError: GROUP_ID_NOT_FOUND if what a member told cannot be read.
        """
        records = upgrade_records(classic, self.catalog) if classic.members else []
        self.origin = classic.snapshot(classic.assignments())
        self.write_pair((group_key(self.group_id), None))
        for record in records:
            self.write(record)

    def tombstones(self) -> Iterable[ConsumerRecord]:
        """Return the records that remove the group."""
        return self.data.tombstones(self.group_id)

    # -- checks of offsets ---------------------------------------------------------------------------------------

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member may consume a topic."""
        return any(topic in data.subscribed_topics for data in (self.data, self.committed))

    def commit_check(self, member_id: str, epoch: int, version: int | None) -> CommitCheck:
        """Return the check of the partitions of a commit. Raises OperationError if nothing may be committed.

        `version` is that of OffsetCommit; None stands for a commit in a transaction, whose sender need not say who
        it is.
        """
        data = self.membership
        if version is None and epoch < 0 and member_id == UNKNOWN_MEMBER:
            return CommitCheck(self, None, epoch)
        if epoch < 0 and not data.members:
            # An administrator, or a consumer that assigns its partitions itself.
            return CommitCheck(self, None, epoch)
        member = data.members.get(member_id)
        if member is None:
            raise self.unknown_member(member_id)
        names_epoch = version is None or version >= FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH
        if not (member.uses_classic_protocol or names_epoch):
            raise OperationError(ErrorCode.unsupported_version)
        if epoch > member.current.epoch:
            raise OperationError(_old_epoch(classic=member.uses_classic_protocol))
        return CommitCheck(self, None if epoch == member.current.epoch else member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise OperationError if a member that is not up to date asks for offsets."""
        if member_id is None and epoch < 0:
            return
        member = self.committed.members.get(member_id or UNKNOWN_MEMBER)
        if member is None:
            raise self.unknown_member(member_id or UNKNOWN_MEMBER)
        if epoch != member.current.epoch:
            raise OperationError(_old_epoch(classic=member.uses_classic_protocol))


class CommitCheck:
    """Which partitions a commit may touch: a member in an older epoch only those that it has had since (KIP-1251)."""

    __slots__ = ("_epoch", "_group", "_member_id")

    def __init__(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
        self._group = group
        self._member_id = member_id
        self._epoch = epoch

    def require(self, places: Iterable[tuple[str, int]]) -> None:
        """Raise OperationError if one of these partitions must not be committed."""
        for topic, partition in places:
            error_code = self.error_of(topic, partition)
            if error_code is not ErrorCode.none:
                raise OperationError(error_code)

    def error_of(self, topic: str, partition: int) -> ErrorCode:
        """Return what is wrong with the commit of a partition."""
        if self._member_id is None:
            return ErrorCode.none
        member = self._group.membership.members[self._member_id]
        known = self._group.catalog.by_name.get(topic)
        for topics in (member.current.assigned, member.current.revoking):
            since = topics.get(known.topic_id, {}).get(partition) if known is not None else None
            if since is not None:
                is_old = self._epoch < since
                return _old_epoch(classic=member.uses_classic_protocol) if is_old else ErrorCode.none
        return _old_epoch(classic=member.uses_classic_protocol)


def _old_epoch(*, classic: bool) -> ErrorCode:
    return ErrorCode.illegal_generation if classic else ErrorCode.stale_member_epoch


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
