"""A member of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.groups.messages import JoinedMember, MemberSnapshot

if TYPE_CHECKING:
    from crabka.broker.groups.messages import Join, Protocols, Reply

NEVER: Final = 1 << 62


class ClassicMember:
    """One member: identity, protocols, assignment, and waiting requests."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self, member_id: str, instance_id: str | None, *, client_id: str, client_host: str, protocols: Protocols
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.protocols = protocols
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.assignment = b""
        self.awaiting_join: Reply | None = None
        self.awaiting_sync: Reply | None = None
        # New members do not know their id yet and cannot send heartbeats.
        self.is_new = False
        self.deadline_ms = NEVER

    @classmethod
    def of_join(cls, join: Join, member_id: str) -> ClassicMember:
        """Return the member of a join."""
        member = cls(
            member_id,
            join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            protocols=join.protocols,
        )
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        return member

    @classmethod
    def of_snapshot(cls, stored: MemberSnapshot, protocol: str) -> ClassicMember:
        """Return a stored member; only its selected protocol is known."""
        member = cls(
            stored.member_id,
            stored.instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            protocols=((protocol, stored.subscription),),
        )
        member.session_timeout_ms = stored.session_timeout_ms
        # Records of version 0 have none.
        known = stored.rebalance_timeout_ms >= 0
        member.rebalance_timeout_ms = stored.rebalance_timeout_ms if known else stored.session_timeout_ms
        member.assignment = stored.assignment
        return member

    @property
    def satisfies_heartbeat(self) -> bool:
        """Return whether a waiting request shows that the member is alive."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata of the member for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Return the first candidate in the preference of the member."""
        return next(name for name, _ in self.protocols if name in candidates)

    def joined(self, protocol: str | None) -> JoinedMember:
        """Return the member as the leader sees it."""
        return JoinedMember(self.member_id, self.instance_id, self.metadata(protocol))

    def snapshot(self, protocol: str | None, assignment: bytes) -> MemberSnapshot:
        """Return the stored form."""
        return MemberSnapshot(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )
