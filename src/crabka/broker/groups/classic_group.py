"""The core of one classic group: `step(event, now_ms)` returns what the shell has to do (KIP-62, 345, 394, 814).

Pure: no clock, no loop, no log. A refused event is answered with Kafka's error code and changes nothing.
"""

from __future__ import annotations

from typing import assert_never

from crabka.broker.groups.member import NEVER, ClassicMember
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
    GroupSnapshot,
    Heartbeat,
    Join,
    JoinResult,
    Leave,
    LeaveResult,
    MemberIdentity,
    Persist,
    StaticMemberStored,
    Sync,
    SyncResult,
    Tick,
)
from crabka.broker.groups.rebalance import Rebalancing
from crabka.protocol.error_codes import ErrorCode

_NONE = ErrorCode.none
NEW_GROUP = GroupSnapshot("", 0, None, None, -1)


class ClassicGroup(Rebalancing):
    """One classic group."""

    __slots__ = ()

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take an event in; return the actions that follow, in order."""
        out: list[Action] = []
        match event:
            case Heartbeat():
                out.append(Answer(event.reply, self._heartbeat(event, now_ms)))
            case CommitAttempt():
                out.append(Answer(event.reply, self._commit_attempt(event, now_ms)))
            case Join():
                self._join(event, now_ms, out)
            case Sync():
                self._sync(event, now_ms, out)
            case Leave():
                self._leave(event, now_ms, out)
            case Tick():
                self.tick(now_ms, out)
            case AssignmentStored():
                self.assignment_stored(event, now_ms, out)
            case StaticMemberStored():
                self._static_member_stored(event, now_ms, out)
            case CreationStored():
                self._creation_stored(event, now_ms, out)
            case EmptyStored():
                # A group without members is read as such from its last generation as well.
                pass
            case _:
                assert_never(event)
        return out

    def retire(self, error_code: ErrorCode, now_ms: int) -> list[Action]:
        """End the group on this node: whoever waits is told to look elsewhere."""
        out: list[Action] = []
        for member in self.members.values():
            self.supersede(member, out, error_code)
        self.enter(GroupState.DEAD, now_ms)
        return out

    # -- join ----------------------------------------------------------------------------------------------------

    def _join(self, join: Join, now_ms: int, out: list[Action]) -> None:
        refusal = self._join_refusal(join)
        if refusal is not _NONE:
            out.append(Answer(join.reply, JoinResult(refusal, join.member_id)))
            if refusal is ErrorCode.group_max_size_reached and join.member_id in self.members:
                self.drop(self.members[join.member_id], out)
                self.maybe_complete_join(now_ms, out)
            return
        if join.is_new_group:
            snapshot = NEW_GROUP._replace(state_timestamp_ms=self.state_timestamp_ms)
            out.append(Persist(snapshot, CreationStored()))
        if join.member_id == UNKNOWN_MEMBER:
            self._join_new(join, now_ms, out)
        elif join.member_id in self.pending_members:
            self._add(join, join.member_id, now_ms, out)
        else:
            self._join_again(join, self.members[join.member_id], now_ms, out)

    def _join_refusal(self, join: Join) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if not self._has_room_for(join.member_id):
            return ErrorCode.group_max_size_reached
        if not self.supports(join.protocol_type, tuple(name for name, _ in join.protocols)):
            return ErrorCode.inconsistent_group_protocol
        if join.member_id == UNKNOWN_MEMBER:
            return _NONE
        if join.member_id in self.pending_members:
            # A pending member is dynamic: static ones are never asked to come back.
            return _NONE if join.instance_id is None else ErrorCode.unknown_member_id
        error_code = self.identity_error(join.member_id, join.instance_id)
        if error_code is _NONE and self.is_empty:
            return ErrorCode.unknown_member_id
        return error_code

    def _has_room_for(self, member_id: str) -> bool:
        limit = self.settings.max_size
        member = self.members.get(member_id)
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                return (member is not None and member.awaiting_join is not None) or self.awaiting_join_count < limit
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                return member is not None or len(self.members) < limit
            case _:
                return True

    def _join_new(self, join: Join, now_ms: int, out: list[Action]) -> None:
        member_id = join.new_member_id
        known = self.static_members.get(join.instance_id) if join.instance_id is not None else None
        if known is not None:
            self._replace_static(join, self.members[known], now_ms, out)
        elif join.instance_id is None and join.requires_known_member_id:
            self.pending_members[member_id] = now_ms + join.session_timeout_ms
            self.deadline_ms = min(self.deadline_ms, now_ms + join.session_timeout_ms)
            out.append(Answer(join.reply, JoinResult(ErrorCode.member_id_required, member_id)))
        else:
            self._add(join, member_id, now_ms, out)

    def _add(self, join: Join, member_id: str, now_ms: int, out: list[Action]) -> None:
        member = ClassicMember.of_join(join, member_id)
        member.is_new = True
        member.awaiting_join = join.reply
        if self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY:
            self.new_member_added = True
        self.add(member, join.protocol_type)
        self.set_member_deadline(member, now_ms + self.settings.new_member_join_timeout_ms)
        self.rebalance_or_complete(f"{member_id} joins", now_ms, out)

    def _join_again(self, join: Join, member: ClassicMember, now_ms: int, out: list[Action]) -> None:
        same = member.protocols == join.protocols
        is_leader = member.member_id == self.leader_id
        if (self.state is GroupState.COMPLETING_REBALANCE and same) or (
            # The leader joins again when it sees that topics changed: that asks for a new assignment.
            self.state is GroupState.STABLE and same and not is_leader
        ):
            self.extend_session(member, now_ms)
            out.append(Answer(join.reply, self.join_result(member)))
            return
        self._update(member, join, out)
        self.rebalance_or_complete(f"{member.member_id} joins again", now_ms, out)

    def _update(self, member: ClassicMember, join: Join, out: list[Action]) -> None:
        # A request that was sent again takes the place of the first, which nobody may read any more.
        self.supersede(member, out, ErrorCode.rebalance_in_progress)
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.awaiting_join = join.reply

    # -- static members ------------------------------------------------------------------------------------------

    def _replace_static(self, join: Join, member: ClassicMember, now_ms: int, out: list[Action]) -> None:
        """A static member came back without its id: it gets a new one, and the old one is fenced."""
        old_leader, old_member_id = self.leader_id or "", member.member_id
        undo = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
        self.supersede(member, out, ErrorCode.fenced_instance_id)
        self.rename(member, join.new_member_id)
        self._update(member, join, out)
        self.extend_session(member, now_ms)
        if self.state is not GroupState.STABLE or self.select_protocol() != self.protocol:
            self.rebalance_or_complete(f"static member {member.instance_id} joins again", now_ms, out)
            return
        # Nothing changes for the others: no rebalance, the assignment stays.
        member.awaiting_join = None
        result = self.join_result(member)
        if join.supports_skipping_assignment:
            result = result._replace(skip_assignment=member.member_id == self.leader_id)
        else:
            # The old leader's id keeps a client that cannot skip from assigning.
            result = result._replace(leader=old_leader, members=())
        stored = StaticMemberStored(
            reply=join.reply,
            instance_id=str(member.instance_id),
            old_member_id=old_member_id,
            new_member_id=member.member_id,
            old_protocols=undo[0],
            old_session_timeout_ms=undo[1],
            old_rebalance_timeout_ms=undo[2],
            result=result,
        )
        out.append(Persist(self.snapshot(self.assignments()), stored))

    def _static_member_stored(self, event: StaticMemberStored, now_ms: int, out: list[Action]) -> None:
        if event.error_code is _NONE:
            out.append(Answer(event.reply, event.result))
            return
        member = self.members.get(event.new_member_id)
        if member is not None:
            member.protocols = event.old_protocols
            member.session_timeout_ms = event.old_session_timeout_ms
            member.rebalance_timeout_ms = event.old_rebalance_timeout_ms
            self.rename(member, event.old_member_id)
            self.extend_session(member, now_ms)
        out.append(Answer(event.reply, JoinResult(event.error_code, UNKNOWN_MEMBER)))

    def _creation_stored(self, event: CreationStored, now_ms: int, out: list[Action]) -> None:
        if event.error_code is not _NONE and self.state is not GroupState.DEAD:
            out += self.retire(event.error_code, now_ms)

    # -- sync, heartbeat, commit ---------------------------------------------------------------------------------

    def _sync(self, sync: Sync, now_ms: int, out: list[Action]) -> None:
        error_code = self._sync_refusal(sync)
        if error_code is not _NONE:
            out.append(Answer(sync.reply, SyncResult(error_code)))
            return
        member = self.members[sync.member_id]
        self.pending_sync.discard(member.member_id)
        if not self.pending_sync:
            self.sync_deadline_ms = NEVER
        if self.state is GroupState.STABLE:
            self.extend_session(member, now_ms)
            out.append(Answer(sync.reply, self.sync_result(member)))
            return
        self.supersede(member, out, ErrorCode.rebalance_in_progress)
        member.awaiting_sync = sync.reply
        if member.member_id == self.leader_id:
            assignments = {each: sync.assignments.get(each, b"") for each in self.members}
            stored = AssignmentStored(generation=self.generation, assignments=assignments)
            out.append(Persist(self.snapshot(assignments), stored))

    def _sync_refusal(self, sync: Sync) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error_code = self._generation_error(sync.member_id, sync.instance_id, sync.generation)
        if error_code is not _NONE:
            return error_code
        if sync.protocol_type not in (None, self.protocol_type) or sync.protocol not in (None, self.protocol):
            return ErrorCode.inconsistent_group_protocol
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.unknown_member_id if self.is_empty else _NONE

    def _generation_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error_code = self.identity_error(member_id, instance_id)
        if error_code is _NONE and generation != self.generation:
            return ErrorCode.illegal_generation
        return error_code

    def _heartbeat(self, event: Heartbeat, now_ms: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error_code = self._generation_error(event.member_id, event.instance_id, event.generation)
        if error_code is not _NONE:
            return error_code
        if self.is_empty:
            return ErrorCode.unknown_member_id
        self.extend_session(self.members[event.member_id], now_ms)
        return ErrorCode.rebalance_in_progress if self.state is GroupState.PREPARING_REBALANCE else _NONE

    def _commit_attempt(self, event: CommitAttempt, now_ms: int) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if event.generation < 0 and self.is_empty:
            # An administrator, or a consumer that assigns its partitions itself.
            return _NONE
        if event.generation < 0 and event.member_id == UNKNOWN_MEMBER and event.instance_id is None:
            return _NONE if event.is_transactional else ErrorCode.unknown_member_id
        error_code = self._generation_error(event.member_id, event.instance_id, event.generation)
        if error_code is not _NONE or event.is_transactional:
            return error_code
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        self.extend_session(self.members[event.member_id], now_ms)
        return _NONE

    # -- leave ---------------------------------------------------------------------------------------------------

    def _leave(self, leave: Leave, now_ms: int, out: list[Action]) -> None:
        if self.state is GroupState.DEAD:
            out.append(Answer(leave.reply, LeaveResult(ErrorCode.coordinator_not_available)))
            return
        rows = tuple((identity, self._remove_identity(identity, out)) for identity in leave.members)
        out.append(Answer(leave.reply, LeaveResult(_NONE, rows)))
        if any(error_code is _NONE for _, error_code in rows):
            self.after_removal("members left", now_ms, out)

    def _remove_identity(self, identity: MemberIdentity, out: list[Action]) -> ErrorCode:
        member_id, instance_id = identity
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = self.static_members.get(instance_id, UNKNOWN_MEMBER)
        if instance_id is None and self.pending_members.pop(member_id, None) is not None:
            return _NONE
        error_code = self.identity_error(member_id, instance_id)
        if error_code is _NONE:
            self.drop(self.members[member_id], out)
        return error_code
