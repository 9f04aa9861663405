"""How members join a classic group: new ones, known ones, and static ones with a new id (KIP-345, 394, 814)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.member import ClassicMember
from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import (
    UNKNOWN_MEMBER,
    Answer,
    CreationStored,
    GroupSnapshot,
    JoinResult,
    Persist,
    StaticMemberStored,
)
from crabka.broker.groups.rebalance import supersede
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.membership import Membership
    from crabka.broker.groups.messages import Action, Join
    from crabka.broker.groups.rebalance import Rebalance

_NONE = ErrorCode.none
NEW_GROUP = GroupSnapshot("", 0, None, None, -1)


class Joins:
    """The joins of one group. Methods append the actions that follow to `out`."""

    __slots__ = ("_group", "_rebalance")

    def __init__(self, membership: Membership, rebalance: Rebalance) -> None:
        self._group = membership
        self._rebalance = rebalance

    def join(self, join: Join, now_ms: int, out: list[Action]) -> None:
        """Process a join: refuse it, answer it, or let it wait for the next generation."""
        group = self._group
        refusal = self._refusal(join)
        if refusal is not _NONE:
            out.append(Answer(join.reply, JoinResult(refusal, join.member_id)))
            if refusal is ErrorCode.group_max_size_reached and join.member_id in group.members:
                self._rebalance.drop(group.members[join.member_id], out)
                self._rebalance.maybe_complete_join(now_ms, out)
            return
        if join.is_new_group:
            snapshot = NEW_GROUP._replace(state_timestamp_ms=group.state_timestamp_ms)
            out.append(Persist(snapshot, CreationStored()))
        if join.member_id == UNKNOWN_MEMBER:
            self._join_new(join, now_ms, out)
        elif join.member_id in group.pending_members:
            self._add(join, join.member_id, now_ms, out)
        else:
            self._rejoin(join, group.members[join.member_id], now_ms, out)

    def _refusal(self, join: Join) -> ErrorCode:
        group = self._group
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if not self._has_room_for(join.member_id):
            return ErrorCode.group_max_size_reached
        if not group.supports(join.protocol_type, tuple(name for name, _ in join.protocols)):
            return ErrorCode.inconsistent_group_protocol
        if join.member_id == UNKNOWN_MEMBER:
            return _NONE
        if join.member_id in group.pending_members:
            # Only dynamic members are asked to join again with an id.
            return _NONE if join.instance_id is None else ErrorCode.unknown_member_id
        error_code = group.identity_error(join.member_id, join.instance_id)
        if error_code is _NONE and group.is_empty:
            return ErrorCode.unknown_member_id
        return error_code

    def _has_room_for(self, member_id: str) -> bool:
        group = self._group
        limit = group.settings.max_size
        member = group.members.get(member_id)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < limit
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                return member is not None or len(group.members) < limit
            case _:
                return True

    def _join_new(self, join: Join, now_ms: int, out: list[Action]) -> None:
        group = self._group
        member_id = join.new_member_id
        known = group.static_members.get(join.instance_id) if join.instance_id is not None else None
        if known is not None:
            self._replace_static(join, group.members[known], now_ms, out)
        elif join.instance_id is None and join.requires_known_member_id:
            group.pending_members[member_id] = now_ms + join.session_timeout_ms
            group.note_deadline(now_ms + join.session_timeout_ms)
            out.append(Answer(join.reply, JoinResult(ErrorCode.member_id_required, member_id)))
        else:
            self._add(join, member_id, now_ms, out)

    def _add(self, join: Join, member_id: str, now_ms: int, out: list[Action]) -> None:
        group = self._group
        member = ClassicMember.of_join(join, member_id)
        member.is_new = True
        member.awaiting_join = join.reply
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            self._rebalance.new_member_added = True
        group.add(member, join.protocol_type)
        group.set_member_deadline(member, now_ms + group.settings.new_member_join_timeout_ms)
        self._rebalance.begin_or_complete(f"{member_id} joins", now_ms, out)

    def _rejoin(self, join: Join, member: ClassicMember, now_ms: int, out: list[Action]) -> None:
        group = self._group
        same = member.protocols == join.protocols
        is_leader = member.member_id == group.leader_id
        if (group.state is GroupState.COMPLETING_REBALANCE and same) or (
            # A leader rejoins a stable group when topics changed: this requests a new assignment.
            group.state is GroupState.STABLE and same and not is_leader
        ):
            group.extend_session(member, now_ms)
            out.append(Answer(join.reply, self._rebalance.join_result(member)))
            return
        self._update(member, join, out)
        self._rebalance.begin_or_complete(f"{member.member_id} joins again", now_ms, out)

    def _update(self, member: ClassicMember, join: Join, out: list[Action]) -> None:
        # A repeated request replaces the first, whose connection may be gone.
        supersede(member, out, ErrorCode.rebalance_in_progress)
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.awaiting_join = join.reply

    # -- static members ------------------------------------------------------------------------------------------

    def _replace_static(self, join: Join, member: ClassicMember, now_ms: int, out: list[Action]) -> None:
        """A static member joined without its id: it gets a new one, and the old one is fenced."""
        group = self._group
        old_leader, old_member_id = group.leader_id or "", member.member_id
        undo = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
        supersede(member, out, ErrorCode.fenced_instance_id)
        group.rename(member, join.new_member_id)
        self._update(member, join, out)
        group.extend_session(member, now_ms)
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol:
            self._rebalance.begin_or_complete(f"static member {member.instance_id} joins again", now_ms, out)
            return
        # Nothing changes for the others: no rebalance, the assignment stays.
        member.awaiting_join = None
        result = self._rebalance.join_result(member)
        if join.supports_skipping_assignment:
            result = result._replace(skip_assignment=member.member_id == group.leader_id)
        else:
            # With the old leader's id, a client that cannot skip the assignment does not assign.
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
        out.append(Persist(group.snapshot(group.assignments()), stored))

    def static_member_stored(self, event: StaticMemberStored, now_ms: int, out: list[Action]) -> None:
        """Answer a static member whose new id was stored, or restore the old id."""
        if event.error_code is _NONE:
            out.append(Answer(event.reply, event.result))
            return
        member = self._group.members.get(event.new_member_id)
        if member is not None:
            member.protocols = event.old_protocols
            member.session_timeout_ms = event.old_session_timeout_ms
            member.rebalance_timeout_ms = event.old_rebalance_timeout_ms
            self._group.rename(member, event.old_member_id)
            self._group.extend_session(member, now_ms)
        out.append(Answer(event.reply, JoinResult(event.error_code, UNKNOWN_MEMBER)))
