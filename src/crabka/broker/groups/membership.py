"""The state of a classic group: the state table, members, static instances, leader, protocols and votes.

Only bookkeeping. `joins`, `rebalance` and `classic_group` decide who may join or leave, and when.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from crabka.broker.groups.member import NEVER, ClassicMember
from crabka.broker.groups.messages import GroupSnapshot
from crabka.broker.groups.subscription import subscribed_topics
from crabka.errors import InvariantError, require
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """The states of a classic group, by the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}


class InvalidTransitionError(InvariantError):
    """A group was asked to enter a state that its current state does not allow."""

    def __init__(self, group_id: str, old: GroupState, new: GroupState) -> None:
        super().__init__(group_id, old, new)
        self.group_id = group_id
        self.old = old
        self.new = new

    def __str__(self) -> str:
        return f"group {self.group_id!r} cannot go from {self.old.value} to {self.new.value}"


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    """The node's settings for classic groups."""

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    # How long a new member may wait in a join before it has to send another one.
    new_member_join_timeout_ms: int = 300_000


class Membership:
    """State of one classic group. Small, because a node may hold very many empty groups."""

    __slots__ = (
        "deadline_ms",
        "generation",
        "group_id",
        "leader_id",
        "members",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "settings",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed",
    )

    def __init__(self, group_id: str, settings: ClassicSettings, now_ms: int) -> None:
        self.group_id = group_id
        self.settings = settings
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        # Ids that were given out, with the time until which their owners have to join (KIP-394).
        self.pending_members: dict[str, int] = {}
        self.pending_sync: set[str] = set()
        # Topics of the generation's subscriptions; None if they are unknown.
        self.subscribed: frozenset[str] | None = None
        # No deadline of the group is before this time. It may be earlier than the first deadline.
        self.deadline_ms = NEVER

    def restore(self, stored: GroupSnapshot, now_ms: int) -> None:
        """Restore a stored group and start the sessions of its members."""
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.leader_id = stored.leader
        self.state_timestamp_ms = stored.state_timestamp_ms
        self.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        self.previous_state = self.state
        self.members.clear()
        self.static_members.clear()
        for each in stored.members:
            member = ClassicMember.of_snapshot(each, stored.protocol or "")
            self.members[member.member_id] = member
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member.member_id
        self.start_sessions(now_ms)
        self.subscribed = self._compute_subscribed()

    # -- state ---------------------------------------------------------------------------------------------------

    def enter(self, new: GroupState, now_ms: int) -> None:
        """Change the state. Raises InvalidTransitionError if the table does not allow it."""
        if new not in LEGAL_TRANSITIONS[self.state]:
            raise InvalidTransitionError(self.group_id, self.state, new)
        self.previous_state = self.state
        self.state = new
        self.state_timestamp_ms = now_ms

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no generation with members."""
        return self.state is GroupState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Return whether the members are consumers, whose subscriptions the broker can read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member may consume a topic."""
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    # -- deadlines -----------------------------------------------------------------------------------------------

    def start_sessions(self, now_ms: int) -> None:
        """Give every member a full session from now on."""
        for member in self.members.values():
            self.set_member_deadline(member, now_ms + member.session_timeout_ms)

    def extend_session(self, member: ClassicMember, now_ms: int) -> None:
        """Restart the session of a member that sent a request."""
        self.set_member_deadline(member, now_ms + member.session_timeout_ms)

    def set_member_deadline(self, member: ClassicMember, deadline_ms: int) -> None:
        """Set the time at which the session of a member ends."""
        member.deadline_ms = deadline_ms
        self.note_deadline(deadline_ms)

    def note_deadline(self, deadline_ms: int) -> None:
        """Lower `deadline_ms` to a new deadline."""
        self.deadline_ms = min(self.deadline_ms, deadline_ms)

    def first_member_deadline_ms(self) -> int:
        """Return the exact time of the first deadline of a member or pending member."""
        return min(
            min((member.deadline_ms for member in self.members.values()), default=NEVER),
            min(self.pending_members.values(), default=NEVER),
        )

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member; the first one leads and sets the protocol type."""
        require(member.member_id not in self.members, f"member {member.member_id} exists already")
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: ClassicMember) -> None:
        """Remove a member; if it led, the oldest other member becomes leader."""
        del self.members[member.member_id]
        self.pending_sync.discard(member.member_id)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: ClassicMember, new_member_id: str) -> None:
        """Change the id of a static member, which keeps its position (KIP-345)."""
        old_member_id = member.member_id
        member.member_id = new_member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self.pending_sync.discard(old_member_id)
        require(member.instance_id is not None, "only static members change their id")
        self.static_members[str(member.instance_id)] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id

    def identity_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return the error of a request from this member and instance; `none` if they are known."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    @property
    def awaiting_join_count(self) -> int:
        """Return how many members wait for the next generation."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Return whether every member waits for the next generation and no id is pending."""
        return not self.pending_members and all(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return how long a rebalance waits for members: the longest timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member that waits for the next generation the leader; return whether there is one."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is None:
            return False
        if leader.awaiting_join is None:
            joined = next((each for each in self.members.values() if each.awaiting_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    # -- protocols -----------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: tuple[str, ...]) -> bool:
        """Return whether a member with these protocols can join."""
        if self.is_empty:
            return bool(protocol_type and names)
        if protocol_type != self.protocol_type:
            return False
        return not self.members or not self._common_protocols().isdisjoint(names)

    def select_protocol(self) -> str:
        """Return the common protocol with most votes; the leader's preference decides a tie."""
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        leader = self.members.get(self.leader_id or "") or next(iter(self.members.values()))
        return leader.vote({name for name, count in votes.items() if count == most} & candidates)

    def _common_protocols(self) -> set[str]:
        sets = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation with the current members, maybe none."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.enter(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol = None
            self.enter(GroupState.EMPTY, now_ms)
        self.subscribed = self._compute_subscribed()

    def settle(self, protocol: str, state: GroupState) -> None:
        """Set protocol and state for members that were added without a rebalance."""
        self.protocol = protocol
        self.state = self.previous_state = state
        self.subscribed = self._compute_subscribed()

    def _compute_subscribed(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members or self.protocol is None:
            return frozenset()
        return subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    # -- views ---------------------------------------------------------------------------------------------------

    def snapshot(self, assignments: Mapping[str, bytes]) -> GroupSnapshot:
        """Return the stored form of the group with these assignments."""
        return GroupSnapshot(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader_id,
            self.state_timestamp_ms,
            tuple(
                member.snapshot(self.protocol, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    def assignments(self) -> dict[str, bytes]:
        """Return the assignment of every member."""
        return {member.member_id: member.assignment for member in self.members.values()}
