"""How a classic group gets from one generation to the next, and what time does to it.

PreparingRebalance collects joins until all members are there or the rebalance timeout is over; the first rebalance
of an empty group is delayed on purpose, so that members that start together meet in one generation. Then
CompletingRebalance waits for the leader's assignment.
"""

from __future__ import annotations

from crabka.broker.groups.member import NEVER, ClassicMember
from crabka.broker.groups.membership import GroupState, Membership
from crabka.broker.groups.messages import (
    Action,
    Answer,
    AssignmentStored,
    EmptyStored,
    JoinedMember,
    JoinResult,
    Persist,
    SyncResult,
    Transitioned,
)
from crabka.protocol.error_codes import ErrorCode

_MAY_REBALANCE = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Rebalancing(Membership):
    """A group's rebalances. Methods append what follows to `out`."""

    __slots__ = ()

    def rebalance_or_complete(self, reason: str, now_ms: int, out: list[Action]) -> None:
        """Begin a rebalance, or end the one that is under way if everybody is there."""
        if self.state in _MAY_REBALANCE:
            self.prepare_rebalance(reason, now_ms, out)
        else:
            self.maybe_complete_join(now_ms, out)

    def prepare_rebalance(self, reason: str, now_ms: int, out: list[Action]) -> None:
        """Ask all members to join again."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(ErrorCode.rebalance_in_progress, now_ms, out)
        self.sync_deadline_ms = NEVER
        is_initial = self.is_empty
        self._go(GroupState.PREPARING_REBALANCE, now_ms, out, reason)
        if is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self.initial_remaining_ms = max(self.rebalance_timeout_ms - delay_ms, 0)
            self._set_join_deadline(now_ms + delay_ms)
            if delay_ms == 0:
                self.end_join_phase(now_ms, out)
        elif self.all_joined:
            self.complete_join(now_ms, out)
        else:
            self._set_join_deadline(now_ms + self.rebalance_timeout_ms)

    def maybe_complete_join(self, now_ms: int, out: list[Action]) -> None:
        """End the collecting of members if nobody is missing. The first rebalance always waits for its time."""
        is_initial = self.previous_state is GroupState.EMPTY
        if self.state is GroupState.PREPARING_REBALANCE and not is_initial and self.all_joined:
            self.complete_join(now_ms, out)

    def end_join_phase(self, now_ms: int, out: list[Action]) -> None:
        """The time to join is over; the first rebalance is prolonged while new members come in."""
        if self.initial_remaining_ms > 0 and self.new_member_added:
            self.new_member_added = False
            delay_ms = min(self.settings.initial_rebalance_delay_ms, self.initial_remaining_ms)
            self.initial_remaining_ms -= delay_ms
            self._set_join_deadline(now_ms + delay_ms)
        else:
            self.complete_join(now_ms, out)

    def complete_join(self, now_ms: int, out: list[Action]) -> None:
        """Begin the next generation with the members that joined; static ones stay even if they did not."""
        self.join_deadline_ms = NEVER
        self.initial_remaining_ms = -1
        self.new_member_added = False
        absent = [each for each in self.members.values() if each.awaiting_join is None and each.instance_id is None]
        for member in absent:
            self.remove(member)
        if not self.elect_joined_leader() and self.members:
            # Nobody joined, only static members are left: wait until their sessions end or one comes back.
            self._set_join_deadline(now_ms + self.rebalance_timeout_ms)
            return
        old = self.state
        self.next_generation(now_ms)
        out.append(Transitioned(old.value, self.state.value, self.generation, "the time to join is over"))
        if self.is_empty:
            out.append(Persist(self.snapshot({}), EmptyStored(generation=self.generation)))
            return
        for member in self.members.values():
            if member.awaiting_join is not None:
                out.append(Answer(member.awaiting_join, self.join_result(member)))
                member.awaiting_join = None
            self.extend_session(member, now_ms)
            member.is_new = False
            self.pending_sync.add(member.member_id)
        self.sync_deadline_ms = now_ms + self.rebalance_timeout_ms
        self.deadline_ms = min(self.deadline_ms, self.sync_deadline_ms)

    def join_result(self, member: ClassicMember) -> JoinResult:
        """Return what a member of the current generation is told; the leader hears of all members."""
        is_leader = member.member_id == self.leader_id
        return JoinResult(
            ErrorCode.none,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader_id or "",
            self.joined_members() if is_leader else (),
        )

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return all members as the leader sees them."""
        return tuple(member.joined(self.protocol) for member in self.members.values())

    # -- sync ----------------------------------------------------------------------------------------------------

    def fail_syncs(self, error_code: ErrorCode, now_ms: int, out: list[Action]) -> None:
        """Take all assignments back and tell whoever waits for one."""
        for member in self.members.values():
            member.assignment = b""
            self._finish_sync(member, SyncResult(error_code), now_ms, out)

    def assignment_stored(self, event: AssignmentStored, now_ms: int, out: list[Action]) -> None:
        """Hand the assignments out, unless the group has moved on meanwhile."""
        if self.state is not GroupState.COMPLETING_REBALANCE or event.generation != self.generation:
            return
        if event.error_code is not ErrorCode.none:
            self.fail_syncs(event.error_code, now_ms, out)
            self.rebalance_or_complete("the assignment could not be stored", now_ms, out)
            return
        for member in self.members.values():
            member.assignment = event.assignments.get(member.member_id, b"")
            self._finish_sync(member, self.sync_result(member), now_ms, out)
        self._go(GroupState.STABLE, now_ms, out, "the leader assigned")

    def sync_result(self, member: ClassicMember) -> SyncResult:
        """Return what a member is to consume."""
        return SyncResult(ErrorCode.none, self.protocol_type, self.protocol, member.assignment)

    def _finish_sync(self, member: ClassicMember, result: SyncResult, now_ms: int, out: list[Action]) -> None:
        if member.awaiting_sync is not None:
            out.append(Answer(member.awaiting_sync, result))
            member.awaiting_sync = None
            self.extend_session(member, now_ms)

    # -- members come and go -------------------------------------------------------------------------------------

    def extend_session(self, member: ClassicMember, now_ms: int) -> None:
        """A member was heard of."""
        self.set_member_deadline(member, now_ms + member.session_timeout_ms)

    def drop(self, member: ClassicMember, out: list[Action]) -> None:
        """Remove a member; a request of it that waits is answered, so that a living one joins anew."""
        self.supersede(member, out, ErrorCode.unknown_member_id)
        self.remove(member)

    def supersede(self, member: ClassicMember, out: list[Action], error_code: ErrorCode) -> None:
        """Answer the requests of a member that still wait."""
        if member.awaiting_join is not None:
            out.append(Answer(member.awaiting_join, JoinResult(error_code, member.member_id)))
            member.awaiting_join = None
        if member.awaiting_sync is not None:
            out.append(Answer(member.awaiting_sync, SyncResult(error_code)))
            member.awaiting_sync = None

    def after_removal(self, reason: str, now_ms: int, out: list[Action]) -> None:
        """Let the group go on without members that were removed."""
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(reason, now_ms, out)
        else:
            self.maybe_complete_join(now_ms, out)

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, out: list[Action]) -> None:
        """Carry out whatever is due, and find out when the next thing is."""
        for member_id in [each for each, deadline_ms in self.pending_members.items() if deadline_ms <= now_ms]:
            del self.pending_members[member_id]
            self.maybe_complete_join(now_ms, out)
        for member in [each for each in self.members.values() if each.deadline_ms <= now_ms]:
            if member.satisfies_heartbeat:
                # Its session begins anew when its request is answered.
                member.deadline_ms = NEVER
            elif member.deadline_ms <= now_ms and self.members.get(member.member_id) is member:
                # Still due: the end of another session may have begun a generation with this member.
                self.drop(member, out)
                self.after_removal(f"the session of {member.member_id} ended", now_ms, out)
        if self.join_deadline_ms <= now_ms:
            self.end_join_phase(now_ms, out)
        if self.sync_deadline_ms <= now_ms:
            self._expire_syncs(now_ms, out)
        self.deadline_ms = self.earliest_deadline_ms()

    def _expire_syncs(self, now_ms: int, out: list[Action]) -> None:
        self.sync_deadline_ms = NEVER
        if self.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) or not self.pending_sync:
            return
        for member_id in list(self.pending_sync):
            member = self.members.get(member_id)
            if member is not None:
                self.drop(member, out)
        self.pending_sync.clear()
        self.prepare_rebalance("members did not ask for their assignment in time", now_ms, out)

    def _set_join_deadline(self, deadline_ms: int) -> None:
        self.join_deadline_ms = deadline_ms
        self.deadline_ms = min(self.deadline_ms, deadline_ms)

    def _go(self, new: GroupState, now_ms: int, out: list[Action], reason: str) -> None:
        old = self.state
        self.enter(new, now_ms)
        out.append(Transitioned(old.value, new.value, self.generation, reason))
