"""Broker sessions on the active controller, and the metadata offset that each broker has read.

This is the only state of the controller that is not in the metadata. A new active controller begins without it and
gives every unfenced broker a whole session time (Kafka's BrokerHeartbeatManager and BrokerHeartbeatTracker). Time is an
input; fencing is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from crabka.controller.decisions.heartbeats import BrokerHeartbeat, BrokerHeartbeatReply
    from crabka.metadata.image import MetadataImage

UNKNOWN_OFFSET = -1


class BrokerIncarnation(NamedTuple):
    """One incarnation of a broker: from one registration to the next."""

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
    """Sessions of the brokers, by id; a broker without a session may register again at once."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Become active: drop old sessions and give every unfenced broker a new one."""
        self._sessions = {
            broker.broker_id: _Session(broker.epoch, now_ms)
            for broker in image.cluster.brokers.values()
            if not broker.fenced
        }

    def touch(self, incarnation: BrokerIncarnation, now_ms: int) -> None:
        """Note a heartbeat before it is decided on; one of a replaced incarnation is ignored."""
        session = self._sessions.get(incarnation.broker_id)
        if session is None or session.epoch < incarnation.epoch:
            self._sessions[incarnation.broker_id] = _Session(incarnation.epoch, now_ms)
        elif session.epoch == incarnation.epoch:
            session.last_contact_ms = max(session.last_contact_ms, now_ms)

    def note(self, heartbeat: BrokerHeartbeat, reply: BrokerHeartbeatReply, *, end_offset: int) -> None:
        """Record an answered heartbeat; `end_offset` is where the metadata log ended with its records."""
        session = self._sessions.get(heartbeat.broker_id)
        if session is None or session.epoch != heartbeat.broker_epoch:
            return
        session.metadata_offset = heartbeat.metadata_offset
        if reply.should_shut_down:
            # It stops serving now, so its next incarnation may register at once.
            self.end(BrokerIncarnation(heartbeat.broker_id, heartbeat.broker_epoch))
        elif reply.in_controlled_shutdown and session.shutdown_offset is None:
            session.shutdown_offset = end_offset

    def end(self, incarnation: BrokerIncarnation) -> None:
        """End a session, if it is still that of this incarnation."""
        session = self._sessions.get(incarnation.broker_id)
        if session is not None and session.epoch == incarnation.epoch:
            del self._sessions[incarnation.broker_id]

    def is_live(self, incarnation: BrokerIncarnation, now_ms: int) -> bool:
        """Return whether the session of an incarnation is live."""
        session = self._sessions.get(incarnation.broker_id)
        return session is not None and session.epoch == incarnation.epoch and not self._is_expired(session, now_ms)

    def expired(self, now_ms: int) -> list[BrokerIncarnation]:
        """Return expired incarnations, longest silence first; each must be fenced and its session ended."""
        silent = [(each.last_contact_ms, key) for key, each in self._sessions.items() if self._is_expired(each, now_ms)]
        return [BrokerIncarnation(key, self._sessions[key].epoch) for _, key in sorted(silent)]

    def next_expiry_ms(self) -> int | None:
        """Return when the next session expires; None without sessions."""
        contacts = [session.last_contact_ms for session in self._sessions.values()]
        return min(contacts) + self._session_timeout_ms + 1 if contacts else None

    def shutdown_offset(self, broker_id: int) -> int | None:
        """Return the offset that others must have read before a broker may stop; None if another controller set it."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """Return the offset that every serving broker has read; None if none serves."""
        offsets = [
            session.metadata_offset if (session := self._sessions.get(broker.broker_id)) is not None else UNKNOWN_OFFSET
            for broker in image.cluster.brokers.values()
            if not broker.fenced and not broker.in_controlled_shutdown
        ]
        return min(offsets) if offsets else None

    def _is_expired(self, session: _Session, now_ms: int) -> bool:
        return session.last_contact_ms + self._session_timeout_ms < now_ms
