"""The ground of a consumer group's core: state that changes by records, a batch at a time, and deadlines of members.

A step changes the state at once and gives its records out as one batch. If the batch cannot be stored, the state goes
back to what it was. Deadlines are no part of the state: they begin anew when the group is loaded.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.messages import (
    ConsumerHeartbeatResult,
    CreationFailed,
    Downgraded,
    PersistBatch,
)
from crabka.broker.groups.consumer.records import encode_consumer_record
from crabka.broker.groups.consumer.state import ConsumerGroupData
from crabka.broker.groups.member import NEVER
from crabka.broker.groups.messages import Answer, JoinResult, LeaveResult, SyncResult, Transitioned
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.groups.consumer.catalog import TopicCatalog
    from crabka.broker.groups.consumer.member import ConsumerMember
    from crabka.broker.groups.consumer.messages import ConsumerAction, ConsumerEvent
    from crabka.broker.groups.consumer.records import ConsumerRecord, Pair
    from crabka.broker.groups.consumer.settings import ConsumerSettings
    from crabka.broker.groups.messages import GroupSnapshot


class ConsumerGroupState(Enum):
    """The states of a consumer group, by the names that clients see."""

    EMPTY = "Empty"
    # The target assignment is older than the group.
    ASSIGNING = "Assigning"
    # Members are on their way to the target assignment.
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class DeadlineKind(Enum):
    """Why a member may be removed when it is silent."""

    SESSION = "its session ended"
    REBALANCE = "it did not give up its partitions in time"
    JOIN = "it did not join again in time"
    SYNC = "it did not ask for its assignment in time"


class StoredGroup:
    """State, open batch and deadlines of one group."""

    __slots__ = (
        "_batch",
        "_batch_is_stored",
        "_deferred",
        "_held",
        "_undo",
        "catalog",
        "data",
        "deadline_ms",
        "deadlines",
        "group_id",
        "is_dead",
        "metadata_version",
        "origin",
        "settings_of",
    )

    def __init__(self, group_id: str, catalog: TopicCatalog, settings_of: Callable[[str], ConsumerSettings]) -> None:
        self.group_id = group_id
        self.catalog = catalog
        self.settings_of = settings_of
        self.data = ConsumerGroupData()
        self.is_dead = False
        # The version of the catalog that the group's hash was made by last.
        self.metadata_version = -1
        # The classic group that this one was made of, until its first records are stored.
        self.origin: GroupSnapshot | None = None
        self.deadlines: dict[tuple[DeadlineKind, str], int] = {}
        # Nothing happens by itself before this time; maybe also not at it.
        self.deadline_ms = NEVER
        self._batch: list[Pair] = []
        # False from the moment on at which a batch is given out until its outcome is known.
        self._batch_is_stored = True
        self._undo: ConsumerGroupData | None = None
        self._held: list[Answer | Downgraded] = []
        self._deferred: deque[ConsumerEvent] = deque()

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> ConsumerSettings:
        """Return the settings of this group."""
        return self.settings_of(self.group_id)

    @property
    def state(self) -> ConsumerGroupState:
        """Return the state that clients are told."""
        data = self.data
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not data.members:
            return ConsumerGroupState.EMPTY
        if data.epoch > data.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(data.assignment_epoch) for member in data.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def committed(self) -> ConsumerGroupData:
        """Return the state that is stored: what is on its way may still be lost."""
        return self.data if self._batch_is_stored or self._undo is None else self._undo

    @property
    def membership(self) -> ConsumerGroupData:
        """Return the state by which commits are judged: the newest, but the last one of a group that is handed over.

        Whoever is in a group that becomes a classic one stays in it.
        """
        is_handed_over = any(isinstance(each, Downgraded) for each in self._held)
        return self.committed if is_handed_over else self.data

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members, whatever becomes of what is on its way."""
        return not (self.data.members or self.committed.members)

    @property
    def exists(self) -> bool:
        """Return whether the group is known to clients, or may be after what is on its way."""
        return any(data.is_stored or data.members for data in (self.data, self.committed))

    # -- records -------------------------------------------------------------------------------------------------

    def write(self, record: ConsumerRecord) -> None:
        """Change the state by a record that is stored with the others of this step."""
        self.write_pair(encode_consumer_record(record))
        self.data.apply(record)

    def write_pair(self, pair: Pair) -> None:
        """Store a record that does not change this group's state."""
        if self._undo is None:
            self._undo = self.data.copy()
        self._batch.append(pair)

    def hold(self, action: Answer | Downgraded) -> None:
        """Carry an action out when what this step wrote is stored; at once if it wrote nothing."""
        self._held.append(action)

    @property
    def is_storing(self) -> bool:
        """Return whether a batch is on its way."""
        return not self._batch_is_stored

    def close_batch(self, before: ConsumerGroupState, reason: str, out: list[ConsumerAction]) -> None:
        """Give out what a step wrote, or the answers if it wrote nothing."""
        if not self._batch:
            out += self._held
            self._held.clear()
            return
        state = self.state
        if state is not before:
            out.append(Transitioned(before.value, state.value, self.data.epoch, reason))
        pairs, self._batch = tuple(self._batch), []
        self._batch_is_stored = False
        out.append(PersistBatch(pairs))

    def abandon_batch(self) -> None:
        """Take back what a step wrote so far: it is refused."""
        self._batch.clear()
        self._held.clear()
        self._restore()

    def batch_stored(self, error_code: ErrorCode, now_ms: int, out: list[ConsumerAction]) -> None:
        """Carry out what waited for the batch, or go back to the state before it."""
        self._batch_is_stored = True
        held, self._held = self._held, []
        if error_code is ErrorCode.none:
            self._undo = None
            if self.origin is not None:
                # Members that came with the classic group may be dead already: they have to be heard of here, too.
                self.origin = None
                self.arm_sessions(now_ms)
            out += held
            return
        out += [failed_answer(each, error_code) for each in held if isinstance(each, Answer)]
        created = self.origin is not None or (self._undo is not None and self._undo.is_gone)
        self._restore()
        self.arm_sessions(now_ms)
        if created:
            self.is_dead = True
            out.append(CreationFailed())

    def _restore(self) -> None:
        if self._undo is not None:
            self.data, self._undo = self._undo, None
            self.metadata_version = -1

    # -- deadlines -----------------------------------------------------------------------------------------------

    def set_deadline(self, kind: DeadlineKind, member_id: str, deadline_ms: int) -> None:
        """Remove a member at a time, unless it is moved or cancelled."""
        self.deadlines[kind, member_id] = deadline_ms
        self.deadline_ms = min(self.deadline_ms, deadline_ms)

    def cancel_deadline(self, kind: DeadlineKind, member_id: str) -> None:
        """Forget a deadline; one that is not set is fine."""
        self.deadlines.pop((kind, member_id), None)

    def cancel_deadlines(self, member_id: str) -> None:
        """Forget all deadlines of a member."""
        for kind in DeadlineKind:
            self.deadlines.pop((kind, member_id), None)

    def extend_session(self, member: ConsumerMember, now_ms: int) -> None:
        """A member was heard of."""
        classic = member.metadata.classic
        timeout_ms = self.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.set_deadline(DeadlineKind.SESSION, member.member_id, now_ms + timeout_ms)

    def arm_sessions(self, now_ms: int) -> None:
        """Give every member that has no session one: after a load nobody knows when they were heard of."""
        for member_id, member in self.data.members.items():
            if (DeadlineKind.SESSION, member_id) not in self.deadlines:
                self.extend_session(member, now_ms)


def failed_answer(answer: Answer, error_code: ErrorCode) -> Answer:
    """Return what is told instead of an answer that depends on records that could not be stored."""
    match answer.result:
        case JoinResult(member_id=member_id):
            return Answer(answer.reply, JoinResult(error_code, member_id))
        case SyncResult():
            return Answer(answer.reply, SyncResult(error_code))
        case LeaveResult():
            return Answer(answer.reply, LeaveResult(error_code))
        case ConsumerHeartbeatResult():
            return Answer(answer.reply, ConsumerHeartbeatResult(error_code))
        case _:
            return Answer(answer.reply, error_code)
