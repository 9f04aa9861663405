"""Who belongs to a classic group: the state table, members, static instances, leader, protocols and votes.

Only bookkeeping. Who may come or go, and when, is decided in `rebalance` and `classic_group`.
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
    """A group was to enter a state that does not follow from the one it is in."""

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
    # How long a new member may wait in a join before it has to ask again.
    new_member_join_timeout_ms: int = 300_000


class Membership:
    """State of one classic group. Small, because a node may hold very many that are empty."""

    __slots__ = (
        "deadline_ms",
        "generation",
        "group_id",
        "initial_remaining_ms",
        "join_deadline_ms",
        "leader_id",
        "members",
        "new_member_added",
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
        "sync_deadline_ms",
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
        # Ids that were given out, with the time until which their owners have to come back (KIP-394).
        self.pending_members: dict[str, int] = {}
        self.pending_sync: set[str] = set()
        # Topics of the generation's subscriptions; None if they cannot be known.
        self.subscribed: frozenset[str] | None = None
        self.new_member_added = False
        # Time that the first rebalance may still be prolonged by; below 0 in all later ones.
        self.initial_remaining_ms = -1
        self.join_deadline_ms = NEVER
        self.sync_deadline_ms = NEVER
        # Nothing happens by itself before this time; maybe also not at it.
        self.deadline_ms = NEVER

    def restore(self, stored: GroupSnapshot, now_ms: int) -> None:
        """Take over a stored group; its members have a whole session to be heard of."""
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
            self.set_member_deadline(member, now_ms + member.session_timeout_ms)
        self.subscribed = self._compute_subscribed()

    def loaded(self, now_ms: int) -> None:
        """Begin to run what was restored: every member has a whole session to be heard of from now on."""
        for member in self.members.values():
            self.set_member_deadline(member, now_ms + member.session_timeout_ms)

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

    def set_member_deadline(self, member: ClassicMember, deadline_ms: int) -> None:
        """Let the session of a member end at a time."""
        member.deadline_ms = deadline_ms
        self.deadline_ms = min(self.deadline_ms, deadline_ms)

    def earliest_deadline_ms(self) -> int:
        """Return the exact time of the next thing that happens by itself; looks at every member."""
        return min(
            self.join_deadline_ms,
            self.sync_deadline_ms,
            min((member.deadline_ms for member in self.members.values()), default=NEVER),
            min(self.pending_members.values(), default=NEVER),
        )

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member; the first one leads and says what kind of group it is."""
        require(member.member_id not in self.members, f"member {member.member_id} is there already")
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: ClassicMember) -> None:
        """Remove a member; if it led, the oldest of the others does now."""
        del self.members[member.member_id]
        self.pending_sync.discard(member.member_id)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: ClassicMember, new_member_id: str) -> None:
        """Give a static member a new id, in its place (KIP-345)."""
        old_member_id = member.member_id
        member.member_id = new_member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self.pending_sync.discard(old_member_id)
        require(member.instance_id is not None, "only static members change their id")
        self.static_members[str(member.instance_id)] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id

    def identity_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return what is wrong with who a request says it comes from."""
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
        """Return whether nobody has to be waited for."""
        return not self.pending_members and all(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return how long a rebalance waits for members: as long as the most patient of them asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that a member leads that waits for the next generation; return whether one does."""
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
        """Return whether a member that knows these protocols fits in."""
        if self.is_empty:
            return bool(protocol_type and names)
        if protocol_type != self.protocol_type:
            return False
        return not self.members or not self._common_protocols().isdisjoint(names)

    def select_protocol(self) -> str:
        """Return the protocol that all members know and most like best; the leader's preference decides a tie."""
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        leader = self.members.get(self.leader_id or "") or next(iter(self.members.values()))
        return leader.vote({name for name, count in votes.items() if count == most} & candidates)

    def _common_protocols(self) -> set[str]:
        sets = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation with the members that are there, maybe none."""
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
        """Take over members with a protocol as they are, without a rebalance."""
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
        """Return what is stored of the group with these assignments."""
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
        """Return what every member was given."""
        return {member.member_id: member.assignment for member in self.members.values()}
