"""Heartbeats of brokers: fence, unfence, controlled shutdown, lost and cordoned log dirs (KIP-500, KIP-858, KIP-1066).

A stopping broker first loses its leaderships. It may stop once it leads nothing and every serving broker has read the
metadata of that, because only then no client is sent to it any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.broker_changes import (
    controlled_shutdown_records,
    cordoned_directory_records,
    fencing_records,
    offline_directory_records,
    unfencing_records,
)
from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import led_partition_count
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.features import CORDONED_DIRECTORIES_LEVEL
from crabka.metadata.requests import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.controller.decisions.sessions import BrokerSessions
    from crabka.ids import DirectoryId
    from crabka.metadata.image import MetadataImage


class BrokerState(Enum):
    """The controller's view of a broker."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeat:
    """The content of a periodic heartbeat."""

    broker_id: int
    broker_epoch: int
    # The offset up to which it has read the metadata log.
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Sequence[DirectoryId] = ()
    # None from brokers older than KIP-1066.
    cordoned_log_dirs: Sequence[DirectoryId] | None = None


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply:
    """The controller's answer."""

    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


def decide_heartbeat(
    image: MetadataImage, rules: ControllerRules, sessions: BrokerSessions, heartbeat: BrokerHeartbeat
) -> Outcome[BrokerHeartbeatReply]:
    """Decide the changes of a heartbeat; the caller must `sessions.note` it once the records are durable.

    Raises OperationError (STALE_BROKER_EPOCH) if this is not the registered incarnation.
    """
    broker_id = heartbeat.broker_id
    view = ControlView(image, rules)
    broker = view.require_broker_epoch(broker_id, heartbeat.broker_epoch)
    records = _directory_records(view, heartbeat)
    if records:
        # Lost dirs come first: an election below must not choose a replica in one of them.
        view = ControlView(_after(image, records), rules)
    state = _next_state(view, sessions, heartbeat)
    match state:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW if not broker.fenced:
            records += fencing_records(view, broker_id)
        case BrokerState.UNFENCED if broker.fenced:
            records += unfencing_records(view, broker_id)
        case BrokerState.CONTROLLED_SHUTDOWN:
            # Repeated while it lasts: partitions that it leads may get another leader at any time.
            records += controlled_shutdown_records(view, broker_id)
        case _:
            pass
    reply = BrokerHeartbeatReply(
        is_caught_up=heartbeat.metadata_offset >= broker.epoch,
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        in_controlled_shutdown=state is BrokerState.CONTROLLED_SHUTDOWN,
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    return Outcome(reply, records)


def broker_state(view: ControlView, broker_id: int) -> BrokerState:
    """Return the current state of a registered broker."""
    broker = view.image.cluster.brokers[broker_id]
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerState.UNFENCED


def _next_state(view: ControlView, sessions: BrokerSessions, heartbeat: BrokerHeartbeat) -> BrokerState:
    broker_id = heartbeat.broker_id
    match broker_state(view, broker_id):
        case BrokerState.FENCED:
            if heartbeat.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            # Its epoch is the offset of its registration: a broker that has not read that must not serve. Neither
            # must one that was fenced while it stopped; a late earlier heartbeat does not unfence it.
            is_stopping = view.image.cluster.brokers[broker_id].in_controlled_shutdown
            if heartbeat.want_fence or is_stopping or heartbeat.metadata_offset < heartbeat.broker_epoch:
                return BrokerState.FENCED
            return BrokerState.UNFENCED
        case BrokerState.UNFENCED:
            if heartbeat.want_fence:
                return BrokerState.SHUTDOWN_NOW if heartbeat.want_shut_down else BrokerState.FENCED
            if not heartbeat.want_shut_down:
                return BrokerState.UNFENCED
            leads = led_partition_count(view, broker_id) > 0
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case _:
            return _while_shutting_down(view, sessions, broker_id)


def _while_shutting_down(view: ControlView, sessions: BrokerSessions, broker_id: int) -> BrokerState:
    if led_partition_count(view, broker_id) > 0:
        return BrokerState.CONTROLLED_SHUTDOWN
    needed = sessions.shutdown_offset(broker_id)
    if needed is None:
        # Another controller began it. What this one has applied includes all records that the other one wrote.
        needed = view.image.offset
    reached = sessions.lowest_active_offset(view.image)
    return BrokerState.SHUTDOWN_NOW if reached is None or reached >= needed else BrokerState.CONTROLLED_SHUTDOWN


def _directory_records(view: ControlView, heartbeat: BrokerHeartbeat) -> list[Any]:
    records: list[Any] = []
    if view.directories_supported:
        records += offline_directory_records(view, heartbeat.broker_id, heartbeat.offline_log_dirs)
    if view.metadata_version >= CORDONED_DIRECTORIES_LEVEL:
        records += cordoned_directory_records(view, heartbeat.broker_id, heartbeat.cordoned_log_dirs)
    return records


def _after(image: MetadataImage, records: Sequence[Any]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset, image.epoch)
