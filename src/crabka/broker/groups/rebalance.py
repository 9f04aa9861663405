"""How a classic group gets from one generation to the next, and what its deadlines do.

PreparingRebalance collects joins until all members joined or the rebalance timeout has passed. The first rebalance of
an empty group is delayed on purpose, so that members that start together meet in one generation. CompletingRebalance
waits for the leader's assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.member import NEVER
from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import (
    Answer,
    AssignmentStored,
    EmptyStored,
    JoinResult,
    Persist,
    SyncResult,
    Transitioned,
)
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.groups.member import ClassicMember
    from crabka.broker.groups.membership import Membership
    from crabka.broker.groups.messages import Action

_MAY_REBALANCE = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
_HAS_GENERATION = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Rebalance:
    """The rebalances of one group. Methods append the actions that follow to `out`."""

    __slots__ = ("_group", "_initial_remaining_ms", "_join_deadline_ms", "_sync_deadline_ms", "new_member_added")

    def __init__(self, membership: Membership) -> None:
        self._group = membership
        # Whether a member joined since the first rebalance was delayed last.
        self.new_member_added = False
        # Time by which the first rebalance may still be delayed; below 0 in all later ones.
        self._initial_remaining_ms = -1
        self._join_deadline_ms = NEVER
        self._sync_deadline_ms = NEVER

    # -- join ----------------------------------------------------------------------------------------------------

    def begin_or_complete(self, reason: str, now_ms: int, out: list[Action]) -> None:
        """Begin a rebalance, or complete the current one if all members joined."""
        if self._group.state in _MAY_REBALANCE:
            self.begin(reason, now_ms, out)
        else:
            self.maybe_complete_join(now_ms, out)

    def begin(self, reason: str, now_ms: int, out: list[Action]) -> None:
        """Require all members to join again."""
        group = self._group
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.rebalance_in_progress, now_ms, out)
        self._sync_deadline_ms = NEVER
        is_initial = group.is_empty
        self._enter(GroupState.PREPARING_REBALANCE, now_ms, out, reason)
        if is_initial:
            delay_ms = group.settings.initial_rebalance_delay_ms
            self._initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._set_join_deadline(now_ms + delay_ms)
            if delay_ms == 0:
                self._end_join_phase(now_ms, out)
        elif group.all_joined:
            self._complete_join(now_ms, out)
        else:
            self._set_join_deadline(now_ms + group.rebalance_timeout_ms)

    def maybe_complete_join(self, now_ms: int, out: list[Action]) -> None:
        """Complete the join phase if all members joined. The first rebalance always waits for its deadline."""
        group = self._group
        is_initial = group.previous_state is GroupState.EMPTY
        if group.state is GroupState.PREPARING_REBALANCE and not is_initial and group.all_joined:
            self._complete_join(now_ms, out)

    def _end_join_phase(self, now_ms: int, out: list[Action]) -> None:
        """The deadline for joins has passed; the first rebalance is extended while new members join."""
        if self._initial_remaining_ms > 0 and self.new_member_added:
            self.new_member_added = False
            delay_ms = min(self._group.settings.initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._initial_remaining_ms -= delay_ms
            self._set_join_deadline(now_ms + delay_ms)
        else:
            self._complete_join(now_ms, out)

    def _complete_join(self, now_ms: int, out: list[Action]) -> None:
        """Begin the next generation with the members that joined; static members stay even if they did not."""
        group = self._group
        self._join_deadline_ms = NEVER
        self._initial_remaining_ms = -1
        self.new_member_added = False
        absent = [each for each in group.members.values() if each.awaiting_join is None and each.instance_id is None]
        for member in absent:
            group.remove(member)
        if not group.elect_joined_leader() and group.members:
            # No member joined, only static members are left: wait until their sessions end or one joins.
            self._set_join_deadline(now_ms + group.rebalance_timeout_ms)
            return
        old = group.state
        group.next_generation(now_ms)
        out.append(Transitioned(old.value, group.state.value, group.generation, "the join phase ended"))
        if group.is_empty:
            out.append(Persist(group.snapshot({}), EmptyStored(generation=group.generation)))
            return
        for member in group.members.values():
            if member.awaiting_join is not None:
                out.append(Answer(member.awaiting_join, self.join_result(member)))
                member.awaiting_join = None
            group.extend_session(member, now_ms)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._sync_deadline_ms = now_ms + group.rebalance_timeout_ms
        group.note_deadline(self._sync_deadline_ms)

    def join_result(self, member: ClassicMember) -> JoinResult:
        """Return the answer to a join of the current generation; only the leader gets all members."""
        group = self._group
        is_leader = member.member_id == group.leader_id
        return JoinResult(
            ErrorCode.none,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader_id or "",
            tuple(each.joined(group.protocol) for each in group.members.values()) if is_leader else (),
        )

    # -- sync ----------------------------------------------------------------------------------------------------

    def synced(self, member: ClassicMember) -> None:
        """Record that a member sent its sync."""
        self._group.pending_sync.discard(member.member_id)
        if not self._group.pending_sync:
            self._sync_deadline_ms = NEVER

    def assignment_stored(self, event: AssignmentStored, now_ms: int, out: list[Action]) -> None:
        """Answer the syncs, unless the group has another generation or state by now."""
        group = self._group
        if group.state is not GroupState.COMPLETING_REBALANCE or event.generation != group.generation:
            return
        if event.error_code is not ErrorCode.none:
            self._fail_syncs(event.error_code, now_ms, out)
            self.begin_or_complete("the assignment could not be stored", now_ms, out)
            return
        for member in group.members.values():
            member.assignment = event.assignments.get(member.member_id, b"")
            self._finish_sync(member, self.sync_result(member), now_ms, out)
        self._enter(GroupState.STABLE, now_ms, out, "the leader assigned")

    def sync_result(self, member: ClassicMember) -> SyncResult:
        """Return the answer to a sync in a stable group."""
        return SyncResult(ErrorCode.none, self._group.protocol_type, self._group.protocol, member.assignment)

    def _fail_syncs(self, error_code: ErrorCode, now_ms: int, out: list[Action]) -> None:
        """Remove all assignments and answer waiting syncs with an error."""
        for member in self._group.members.values():
            member.assignment = b""
            self._finish_sync(member, SyncResult(error_code), now_ms, out)

    def _finish_sync(self, member: ClassicMember, result: SyncResult, now_ms: int, out: list[Action]) -> None:
        if member.awaiting_sync is not None:
            out.append(Answer(member.awaiting_sync, result))
            member.awaiting_sync = None
            self._group.extend_session(member, now_ms)

    # -- removal -------------------------------------------------------------------------------------------------

    def drop(self, member: ClassicMember, out: list[Action]) -> None:
        """Remove a member and answer its waiting requests, so that a live one joins again."""
        supersede(member, out, ErrorCode.unknown_member_id)
        self._group.remove(member)

    def after_removal(self, reason: str, now_ms: int, out: list[Action]) -> None:
        """Continue after members were removed."""
        if self._group.state in _HAS_GENERATION:
            self.begin(reason, now_ms, out)
        else:
            self.maybe_complete_join(now_ms, out)

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, out: list[Action]) -> None:
        """Process deadlines that have passed, and compute the next one."""
        group = self._group
        for member_id in [each for each, deadline_ms in group.pending_members.items() if deadline_ms <= now_ms]:
            del group.pending_members[member_id]
            self.maybe_complete_join(now_ms, out)
        for member in [each for each in group.members.values() if each.deadline_ms <= now_ms]:
            if member.satisfies_heartbeat:
                # Its session restarts when its request is answered.
                member.deadline_ms = NEVER
            elif member.deadline_ms <= now_ms and group.members.get(member.member_id) is member:
                # Checked anew: the end of another session may have begun a generation with this member.
                self.drop(member, out)
                self.after_removal(f"the session of {member.member_id} ended", now_ms, out)
        if self._join_deadline_ms <= now_ms:
            self._end_join_phase(now_ms, out)
        if self._sync_deadline_ms <= now_ms:
            self._expire_syncs(now_ms, out)
        group.deadline_ms = self.first_deadline_ms()

    def first_deadline_ms(self) -> int:
        """Return the exact time of the group's first deadline; iterates over every member."""
        return min(self._join_deadline_ms, self._sync_deadline_ms, self._group.first_member_deadline_ms())

    def _expire_syncs(self, now_ms: int, out: list[Action]) -> None:
        group = self._group
        self._sync_deadline_ms = NEVER
        if group.state not in _HAS_GENERATION or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            member = group.members.get(member_id)
            if member is not None:
                self.drop(member, out)
        group.pending_sync.clear()
        self.begin("members did not sync in time", now_ms, out)

    def _set_join_deadline(self, deadline_ms: int) -> None:
        self._join_deadline_ms = deadline_ms
        self._group.note_deadline(deadline_ms)

    def _enter(self, new: GroupState, now_ms: int, out: list[Action], reason: str) -> None:
        old = self._group.state
        self._group.enter(new, now_ms)
        out.append(Transitioned(old.value, new.value, self._group.generation, reason))


def supersede(member: ClassicMember, out: list[Action], error_code: ErrorCode) -> None:
    """Answer the waiting requests of a member with an error."""
    if member.awaiting_join is not None:
        out.append(Answer(member.awaiting_join, JoinResult(error_code, member.member_id)))
        member.awaiting_join = None
    if member.awaiting_sync is not None:
        out.append(Answer(member.awaiting_sync, SyncResult(error_code)))
        member.awaiting_sync = None
