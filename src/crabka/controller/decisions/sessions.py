"""Which brokers the active controller hears from: their sessions, and how far each has read the metadata.

This is the only state of the controller that is not in the metadata. A new active controller begins with none of it
and gives every unfenced broker a whole session time (Kafka's BrokerHeartbeatManager and BrokerHeartbeatTracker).
Time is an input; fencing is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from crabka.controller.decisions.heartbeats import BrokerHeartbeat, BrokerHeartbeatReply
    from crabka.metadata.image import MetadataImage

UNKNOWN_OFFSET = -1


class BrokerIncarnation(NamedTuple):
    """A broker from one registration to the next."""

    broker_id: int
    epoch: int


@dataclass(slots=True)
class _Session:
    epoch: int
    last_contact_ms: int
    metadata_offset: int = UNKNOWN_OFFSET
    # The end of the batch that began the controlled shutdown; None outside of one.
    shutdown_offset: int | None = None


class BrokerSessions:
    """Sessions of the brokers, by id; a broker without a session may register anew at once."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Begin to lead: forget the past and give every broker that serves a session."""
        self._sessions = {
            broker.broker_id: _Session(broker.epoch, now_ms)
            for broker in image.cluster.brokers.values()
            if not broker.fenced
        }

    def touch(self, incarnation: BrokerIncarnation, now_ms: int) -> None:
        """Note that a heartbeat came in, before it waits for its turn; an incarnation that was replaced is no news."""
        session = self._sessions.get(incarnation.broker_id)
        if session is None or session.epoch < incarnation.epoch:
            self._sessions[incarnation.broker_id] = _Session(incarnation.epoch, now_ms)
        elif session.epoch == incarnation.epoch:
            session.last_contact_ms = max(session.last_contact_ms, now_ms)

    def note(self, heartbeat: BrokerHeartbeat, reply: BrokerHeartbeatReply, *, end_offset: int) -> None:
        """Take over an answered heartbeat; `end_offset` is where the metadata log ended with its records."""
        session = self._sessions.get(heartbeat.broker_id)
        if session is None or session.epoch != heartbeat.broker_epoch:
            return
        session.metadata_offset = heartbeat.metadata_offset
        if reply.should_shut_down:
            # It stops serving now, so its next incarnation need not wait.
            self.end(BrokerIncarnation(heartbeat.broker_id, heartbeat.broker_epoch))
        elif reply.in_controlled_shutdown and session.shutdown_offset is None:
            session.shutdown_offset = end_offset

    def end(self, incarnation: BrokerIncarnation) -> None:
        """End a session, if it is still that of this incarnation."""
        session = self._sessions.get(incarnation.broker_id)
        if session is not None and session.epoch == incarnation.epoch:
            del self._sessions[incarnation.broker_id]

    def is_live(self, incarnation: BrokerIncarnation, now_ms: int) -> bool:
        """Return whether an incarnation was heard of within the session time."""
        session = self._sessions.get(incarnation.broker_id)
        return session is not None and session.epoch == incarnation.epoch and not self._is_expired(session, now_ms)

    def expired(self, now_ms: int) -> list[BrokerIncarnation]:
        """Return whose time is over, longest silence first; each must be fenced and its session ended."""
        silent = [(each.last_contact_ms, key) for key, each in self._sessions.items() if self._is_expired(each, now_ms)]
        return [BrokerIncarnation(key, self._sessions[key].epoch) for _, key in sorted(silent)]

    def next_expiry_ms(self) -> int | None:
        """Return when to look for expired sessions next; None without sessions."""
        contacts = [session.last_contact_ms for session in self._sessions.values()]
        return min(contacts) + self._session_timeout_ms + 1 if contacts else None

    def shutdown_offset(self, broker_id: int) -> int | None:
        """Return what the others must have read before a broker may stop; None if this controller did not see it."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """Return how far every broker that serves has read the metadata; None if there is none."""
        offsets = [
            session.metadata_offset if (session := self._sessions.get(broker.broker_id)) is not None else UNKNOWN_OFFSET
            for broker in image.cluster.brokers.values()
            if not broker.fenced and not broker.in_controlled_shutdown
        ]
        return min(offsets) if offsets else None

    def _is_expired(self, session: _Session, now_ms: int) -> bool:
        return session.last_contact_ms + self._session_timeout_ms < now_ms
