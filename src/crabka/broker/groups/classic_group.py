"""The core of one classic group: `step(event, now_ms)` returns the actions for the shell (KIP-62, 345, 394, 814).

Pure: no clock, no loop, no log. A refused event is answered with Kafka's error code and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from crabka.broker.groups.joins import Joins
from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import (
    UNKNOWN_MEMBER,
    Action,
    Answer,
    AssignmentStored,
    CommitAttempt,
    CreationStored,
    EmptyStored,
    Event,
    Heartbeat,
    Join,
    Leave,
    LeaveResult,
    MemberIdentity,
    Persist,
    StaticMemberStored,
    Sync,
    SyncResult,
    Tick,
)
from crabka.broker.groups.rebalance import Rebalance, supersede
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.membership import Membership

_NONE = ErrorCode.none


class ClassicGroup:
    """One classic group."""

    __slots__ = ("_joins", "_rebalance", "membership")

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self._rebalance = Rebalance(membership)
        self._joins = Joins(membership, self._rebalance)

    @property
    def group_id(self) -> str:
        """Return the id of the group."""
        return self.membership.group_id

    @property
    def state(self) -> GroupState:
        """Return the state of the group."""
        return self.membership.state

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no generation with members."""
        return self.membership.is_empty

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member may consume a topic."""
        return self.membership.is_subscribed_to(topic)

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Process an event; return the actions that follow, in order."""
        out: list[Action] = []
        match event:
            case Heartbeat():
                out.append(Answer(event.reply, self._heartbeat(event, now_ms)))
            case CommitAttempt():
                out.append(Answer(event.reply, self._commit_attempt(event, now_ms)))
            case Join():
                self._joins.join(event, now_ms, out)
            case Sync():
                self._sync(event, now_ms, out)
            case Leave():
                self._leave(event, now_ms, out)
            case Tick():
                self._rebalance.tick(now_ms, out)
            case AssignmentStored():
                self._rebalance.assignment_stored(event, now_ms, out)
            case StaticMemberStored():
                self._joins.static_member_stored(event, now_ms, out)
            case CreationStored():
                self._creation_stored(event, now_ms, out)
            case EmptyStored():
                # If this fails, the record of the last generation is read as a group without live members, too.
                pass
            case _:
                assert_never(event)
        return out

    def rebalance(self, reason: str, now_ms: int) -> list[Action]:
        """Require all members to join again; return the actions that follow."""
        out: list[Action] = []
        self._rebalance.begin(reason, now_ms, out)
        return out

    def retire(self, error_code: ErrorCode, now_ms: int) -> list[Action]:
        """End the group on this node: waiting requests are answered with the error."""
        out: list[Action] = []
        for member in self.membership.members.values():
            supersede(member, out, error_code)
        self.membership.enter(GroupState.DEAD, now_ms)
        return out

    def _creation_stored(self, event: CreationStored, now_ms: int, out: list[Action]) -> None:
        if event.error_code is not _NONE and self.state is not GroupState.DEAD:
            out += self.retire(event.error_code, now_ms)

    # -- sync, heartbeat, commit ---------------------------------------------------------------------------------

    def _sync(self, sync: Sync, now_ms: int, out: list[Action]) -> None:
        group = self.membership
        error_code = self._sync_refusal(sync)
        if error_code is not _NONE:
            out.append(Answer(sync.reply, SyncResult(error_code)))
            return
        member = group.members[sync.member_id]
        self._rebalance.synced(member)
        if group.state is GroupState.STABLE:
            group.extend_session(member, now_ms)
            out.append(Answer(sync.reply, self._rebalance.sync_result(member)))
            return
        supersede(member, out, ErrorCode.rebalance_in_progress)
        member.awaiting_sync = sync.reply
        if member.member_id == group.leader_id:
            assignments = {each: sync.assignments.get(each, b"") for each in group.members}
            stored = AssignmentStored(generation=group.generation, assignments=assignments)
            out.append(Persist(group.snapshot(assignments), stored))

    def _sync_refusal(self, sync: Sync) -> ErrorCode:
        group = self.membership
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error_code = self._generation_error(sync.member_id, sync.instance_id, sync.generation)
        if error_code is not _NONE:
            return error_code
        if sync.protocol_type not in (None, group.protocol_type) or sync.protocol not in (None, group.protocol):
            return ErrorCode.inconsistent_group_protocol
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.unknown_member_id if group.is_empty else _NONE

    def _generation_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error_code = self.membership.identity_error(member_id, instance_id)
        if error_code is _NONE and generation != self.membership.generation:
            return ErrorCode.illegal_generation
        return error_code

    def _heartbeat(self, event: Heartbeat, now_ms: int) -> ErrorCode:
        group = self.membership
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error_code = self._generation_error(event.member_id, event.instance_id, event.generation)
        if error_code is not _NONE:
            return error_code
        if group.is_empty:
            return ErrorCode.unknown_member_id
        group.extend_session(group.members[event.member_id], now_ms)
        return ErrorCode.rebalance_in_progress if group.state is GroupState.PREPARING_REBALANCE else _NONE

    def _commit_attempt(self, event: CommitAttempt, now_ms: int) -> ErrorCode:
        group = self.membership
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if event.generation < 0 and group.is_empty:
            # An administrator, or a consumer with manually assigned partitions.
            return _NONE
        if event.generation < 0 and event.member_id == UNKNOWN_MEMBER and event.instance_id is None:
            return _NONE if event.is_transactional else ErrorCode.unknown_member_id
        error_code = self._generation_error(event.member_id, event.instance_id, event.generation)
        if error_code is not _NONE or event.is_transactional:
            return error_code
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        group.extend_session(group.members[event.member_id], now_ms)
        return _NONE

    # -- leave ---------------------------------------------------------------------------------------------------

    def _leave(self, leave: Leave, now_ms: int, out: list[Action]) -> None:
        if self.state is GroupState.DEAD:
            out.append(Answer(leave.reply, LeaveResult(ErrorCode.coordinator_not_available)))
            return
        rows = tuple((identity, self._remove_identity(identity, out)) for identity in leave.members)
        out.append(Answer(leave.reply, LeaveResult(_NONE, rows)))
        if any(error_code is _NONE for _, error_code in rows):
            self._rebalance.after_removal("members left", now_ms, out)

    def _remove_identity(self, identity: MemberIdentity, out: list[Action]) -> ErrorCode:
        group = self.membership
        member_id, instance_id = identity
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = group.static_members.get(instance_id, UNKNOWN_MEMBER)
        if instance_id is None and group.pending_members.pop(member_id, None) is not None:
            return _NONE
        error_code = group.identity_error(member_id, instance_id)
        if error_code is _NONE:
            self._rebalance.drop(group.members[member_id], out)
        return error_code
