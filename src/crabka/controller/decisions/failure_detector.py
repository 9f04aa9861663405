"""Detects that a broker's process is dead before its session expires.

A running machine refuses connections to a port without a listener. So when the connection that carried a broker's
heartbeats breaks, the controller dials the broker: two refusals, at least 100 ms apart and by every address, mean that
the process is gone. A time-out, an unreachable host or an unknown name may be a fault of the network, so the session
decides then. Fencing early is a normal fencing, which ends the session.

This is the decision only: `step(event, now_ms) -> actions`. The shell dials, reports broken connections, and wakes the
core at `next_wake_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from crabka.controller.decisions.sessions import BrokerIncarnation

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

# Between two dials; a single refusal may come from a process that is just binding its port.
DIAL_INTERVAL_MS = 100
# How long a new controller waits for the first heartbeat before it dials.
FIRST_HEARTBEAT_MS = 1000
# A dying process may still accept for a moment. After this many dials the session decides.
MAX_DIALS = 5


class DialOutcome(Enum):
    """The outcome of dialling one address."""

    CONNECTED = "connected"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    UNREACHABLE = "unreachable"
    UNKNOWN_NAME = "unknown name"


@dataclass(frozen=True, slots=True)
class ControllerActivated:
    """This node became the active controller; these brokers are unfenced."""

    brokers: Collection[BrokerIncarnation]


@dataclass(frozen=True, slots=True)
class ControllerDeactivated:
    """This node is no longer the active controller."""


@dataclass(frozen=True, slots=True)
class QuorumLiveness:
    """Whether a majority of the voters responded within the time that check-quorum allows."""

    is_live: bool


@dataclass(frozen=True, slots=True)
class HeartbeatArrived:
    """A heartbeat of the registered incarnation came over this connection."""

    broker: BrokerIncarnation
    connection: Hashable


@dataclass(frozen=True, slots=True)
class ConnectionBroke:
    """A connection to this controller ended, closed by either side."""

    connection: Hashable


@dataclass(frozen=True, slots=True)
class DialFinished:
    """Every resolved address of a broker's registered endpoint was dialled; no outcome means an unknown host name."""

    broker: BrokerIncarnation
    outcomes: Collection[DialOutcome]


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """An incarnation was fenced, replaced or unregistered."""

    broker: BrokerIncarnation


@dataclass(frozen=True, slots=True)
class DetectorTick:
    """The time `next_wake_ms` was reached."""


DetectorEvent: TypeAlias = (
    ControllerActivated
    | ControllerDeactivated
    | QuorumLiveness
    | HeartbeatArrived
    | ConnectionBroke
    | DialFinished
    | BrokerGone
    | DetectorTick
)


@dataclass(frozen=True, slots=True)
class DialBroker:
    """Dial every address of the broker's registered inter-broker endpoint; report the outcome with DialFinished."""

    broker: BrokerIncarnation


@dataclass(frozen=True, slots=True)
class FenceEarly:
    """The process is dead: fence this incarnation and end its session."""

    broker: BrokerIncarnation


DetectorAction: TypeAlias = DialBroker | FenceEarly


@dataclass(slots=True)
class _Watched:
    """One broker. `next_dial_ms` is set while it is suspected or waited for, `is_dialling` while a dial is out."""

    epoch: int
    # Open connections that carried heartbeats of the epoch. After a partition an old one may deliver a late heartbeat
    # and break, while the broker sends over another.
    connections: set[Hashable] = field(default_factory=set)
    next_dial_ms: int | None = None
    is_dialling: bool = False
    dials: int = 0
    # Time of the first of the latest consecutive refusals.
    refused_since_ms: int | None = None

    def trust(self) -> None:
        """Stop suspecting it. The outcome of a dial under way no longer matters."""
        self.next_dial_ms = self.refused_since_ms = None
        self.is_dialling = False
        self.dials = 0


class FailureDetector:
    """Watches the brokers of one active controller."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._watched: dict[int, _Watched] = {}
        self._quorum_is_live = False

    @property
    def next_wake_ms(self) -> int | None:
        """When DetectorTick is due; None if there is no deadline."""
        times = [each.next_dial_ms for each in self._watched.values() if each.next_dial_ms is not None]
        return min(times, default=None)

    def step(self, event: DetectorEvent, now_ms: int) -> list[DetectorAction]:
        """Handle an event and return actions."""
        if not self._enabled:
            return []
        match event:
            case ControllerActivated(brokers):
                first_dial_ms = now_ms + FIRST_HEARTBEAT_MS
                self._watched = {each.broker_id: _Watched(each.epoch, next_dial_ms=first_dial_ms) for each in brokers}
            case ControllerDeactivated():
                self._watched.clear()
                self._quorum_is_live = False
            case QuorumLiveness(is_live):
                self._quorum_is_live = is_live
            case HeartbeatArrived(broker, connection):
                self._heard(broker, connection)
            case ConnectionBroke(connection):
                self._broke(connection, now_ms)
            case DialFinished(broker, outcomes):
                return self._dialled(broker, outcomes, now_ms)
            case BrokerGone(broker):
                if self._find(broker) is not None:
                    del self._watched[broker.broker_id]
            case DetectorTick():
                pass
            case _:
                assert_never(event)
        return self._due_dials(now_ms)

    def _find(self, broker: BrokerIncarnation) -> _Watched | None:
        watched = self._watched.get(broker.broker_id)
        return watched if watched is not None and watched.epoch == broker.epoch else None

    def _heard(self, broker: BrokerIncarnation, connection: Hashable) -> None:
        watched = self._watched.get(broker.broker_id)
        if watched is None or watched.epoch < broker.epoch:
            watched = self._watched[broker.broker_id] = _Watched(broker.epoch)
        if watched.epoch == broker.epoch:
            watched.connections.add(connection)
            watched.trust()

    def _broke(self, connection: Hashable, now_ms: int) -> None:
        for watched in self._watched.values():
            if connection in watched.connections:
                watched.connections.remove(connection)
                watched.next_dial_ms = now_ms

    def _due_dials(self, now_ms: int) -> list[DetectorAction]:
        actions: list[DetectorAction] = []
        for broker_id, watched in self._watched.items():
            if watched.next_dial_ms is not None and watched.next_dial_ms <= now_ms:
                watched.next_dial_ms = None
                watched.is_dialling = True
                watched.dials += 1
                actions.append(DialBroker(_incarnation(broker_id, watched)))
        return actions

    def _dialled(
        self, broker: BrokerIncarnation, outcomes: Collection[DialOutcome], now_ms: int
    ) -> list[DetectorAction]:
        watched = self._find(broker)
        if watched is None or not watched.is_dialling:
            return []
        watched.is_dialling = False
        answers = set(outcomes)
        if not answers or not answers <= {DialOutcome.REFUSED, DialOutcome.CONNECTED}:
            watched.trust()
            return []
        if answers != {DialOutcome.REFUSED}:
            watched.refused_since_ms = None
        elif watched.refused_since_ms is None:
            watched.refused_since_ms = now_ms
        elif now_ms - watched.refused_since_ms >= DIAL_INTERVAL_MS and self._quorum_is_live:
            watched.trust()
            return [FenceEarly(broker)]
        if watched.dials < MAX_DIALS:
            watched.next_dial_ms = now_ms + DIAL_INTERVAL_MS
        else:
            watched.trust()
        return []


def _incarnation(broker_id: int, watched: _Watched) -> BrokerIncarnation:
    return BrokerIncarnation(broker_id, watched.epoch)
