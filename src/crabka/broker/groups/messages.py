"""Events, actions and results of the core of a classic group.

A reply is an opaque token of the shell: it enters with an event and leaves with its answer, maybe much later. An answer
that depends on a record waits for `Persist`: the shell appends the record and then steps the core with the `done`
event, which has the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from crabka.protocol.error_codes import ErrorCode

UNKNOWN_MEMBER = ""
NO_GENERATION = -1

Reply: TypeAlias = Any
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a join."""

    error_code: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The answer to a sync."""

    error_code: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class LeaveResult(NamedTuple):
    """The answer to a leave: the group's own error, and one per member."""

    error_code: ErrorCode
    members: tuple[tuple[MemberIdentity, ErrorCode], ...] = ()


class MemberIdentity(NamedTuple):
    """A member that leaves. An administrator names a static member by its instance alone."""

    member_id: str
    instance_id: str | None = None


class MemberSnapshot(NamedTuple):
    """The stored form of a member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSnapshot(NamedTuple):
    """The stored form of a classic group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberSnapshot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A member joins the next generation."""

    reply: Reply
    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    # The id that a member without one gets.
    new_member_id: str
    # Clients since JoinGroup v4 have to join again with the id that they get (KIP-394).
    requires_known_member_id: bool
    # The leader may skip the assignment since JoinGroup v9 (KIP-814).
    supports_skipping_assignment: bool = False
    # The group was created for this join, so that it has to be stored.
    is_new_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A member requests its assignment; the leader sends all of them."""

    reply: Reply
    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member is alive. Answered with an error code."""

    reply: Reply
    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Members leave, or an administrator removes them."""

    reply: Reply
    members: tuple[MemberIdentity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A client commits offsets. Answered with an error code; extends the session of a member."""

    reply: Reply
    member_id: str
    instance_id: str | None = None
    generation: int
    # Clients before TxnOffsetCommit v3 name no member, and the state of the group does not matter.
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: process deadlines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStored:
    """The outcome of the append of the leader's assignment."""

    generation: int
    assignments: dict[str, bytes]
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationStored:
    """The outcome of the append of a new group."""

    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyStored:
    """The outcome of the append of a group without members."""

    generation: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMemberStored:
    """The outcome of the append of a static member's new id; after an error the old one is restored."""

    reply: Reply
    instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: Protocols
    old_session_timeout_ms: int
    old_rebalance_timeout_ms: int
    result: JoinResult
    error_code: ErrorCode = ErrorCode.none


StoreDone: TypeAlias = AssignmentStored | CreationStored | EmptyStored | StaticMemberStored
Event: TypeAlias = Join | Sync | Heartbeat | Leave | CommitAttempt | Tick | StoreDone


def failed(done: StoreDone, error_code: ErrorCode) -> StoreDone:
    """Return the event of a failed append."""
    return replace(done, error_code=error_code)


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request."""

    reply: Reply
    result: JoinResult | SyncResult | LeaveResult | ErrorCode


@dataclass(frozen=True, slots=True)
class Persist:
    """Append the group, then step with `done`."""

    snapshot: GroupSnapshot
    done: StoreDone


@dataclass(frozen=True, slots=True)
class Transitioned:
    """A change of state, for the node's log."""

    old: str
    new: str
    generation: int
    reason: str


Action: TypeAlias = Answer | Persist | Transitioned
