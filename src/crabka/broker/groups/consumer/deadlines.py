"""Deadlines of the members of a consumer group. They are not stored: they restart when the group is loaded."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from crabka.broker.groups.member import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.groups.consumer.context import GroupContext
    from crabka.broker.groups.consumer.member import ConsumerMember


class DeadlineKind(Enum):
    """Why a member is removed when a deadline passes."""

    SESSION = "its session ended"
    REBALANCE = "it did not release its partitions in time"
    JOIN = "it did not join again in time"
    SYNC = "it did not sync in time"


class MemberDeadlines:
    """The deadlines of one group."""

    __slots__ = ("_context", "_deadlines", "first_ms")

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._deadlines: dict[tuple[DeadlineKind, str], int] = {}
        # No deadline is before this time. It may be earlier than the first deadline.
        self.first_ms = NEVER

    def is_set(self, kind: DeadlineKind, member_id: str) -> bool:
        """Return whether a member has a deadline."""
        return (kind, member_id) in self._deadlines

    def set(self, kind: DeadlineKind, member_id: str, deadline_ms: int) -> None:
        """Set or move a deadline."""
        self._deadlines[kind, member_id] = deadline_ms
        self.first_ms = min(self.first_ms, deadline_ms)

    def cancel(self, kind: DeadlineKind, member_id: str) -> None:
        """Remove a deadline, if it is set."""
        self._deadlines.pop((kind, member_id), None)

    def cancel_all(self, member_id: str) -> None:
        """Remove all deadlines of a member."""
        for kind in DeadlineKind:
            self.cancel(kind, member_id)

    def clear(self) -> None:
        """Remove all deadlines of all members."""
        self._deadlines.clear()

    def take_due(self, now_ms: int) -> list[tuple[DeadlineKind, str]]:
        """Remove and return the deadlines that have passed."""
        due = [key for key, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]
        for key in due:
            del self._deadlines[key]
        return due

    def update_first(self) -> None:
        """Set `first_ms` to the exact time of the first deadline; iterates over all of them."""
        self.first_ms = min(self._deadlines.values(), default=NEVER)

    def extend_session(self, member: ConsumerMember, now_ms: int) -> None:
        """Restart the session of a member that sent a request."""
        classic = member.metadata.classic
        timeout_ms = self._context.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.set(DeadlineKind.SESSION, member.member_id, now_ms + timeout_ms)

    def start_missing_sessions(self, members: Iterable[ConsumerMember], now_ms: int) -> None:
        """Start a session for every member without one: after a load, the time of its last request is unknown."""
        for member in members:
            if not self.is_set(DeadlineKind.SESSION, member.member_id):
                self.extend_session(member, now_ms)
