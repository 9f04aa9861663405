"""Changes of a registered broker: fenced, unfenced, shutting down, unregistered, log dirs lost.

Every change of the registration has the changes of the broker's partitions in the same batch, so that no image shows a
fenced leader. Kafka: the `handleBroker…` methods of ReplicationControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.leadership import (
    after_unclean_shutdown,
    partitions_eligible_on,
    partitions_in_sync_on,
    with_broker,
    without_broker,
)
from crabka.errors import OperationError
from crabka.metadata.records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from crabka.metadata.requests import Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.ids import DirectoryId
    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.image import MetadataImage

_FENCE, _UNFENCE, _IN_CONTROLLED_SHUTDOWN = 1, -1, 1


def fencing_records(view: ControlView, broker_id: int) -> list[Any]:
    """Return the records that fence a broker: it leaves leaderships and ISRs, except the last member without ELR."""
    broker = view.image.cluster.brokers[broker_id]
    return [
        *without_broker(view, broker_id, partitions_in_sync_on(view, broker_id)),
        _change(broker, fenced=_FENCE),
    ]


def unfencing_records(view: ControlView, broker_id: int) -> list[Any]:
    """Return the records that unfence a broker and elect it where a partition has no leader and it is eligible."""
    return [_change(view.image.cluster.brokers[broker_id], fenced=_UNFENCE), *with_broker(view, broker_id)]


def controlled_shutdown_records(view: ControlView, broker_id: int) -> list[Any]:
    """Return the records that move leadership away from a stopping broker; repeated while it waits."""
    broker = view.image.cluster.brokers[broker_id]
    entering = (
        [] if broker.in_controlled_shutdown else [_change(broker, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN)]
    )
    return [*entering, *without_broker(view, broker_id, partitions_in_sync_on(view, broker_id))]


def cleanup_records(view: ControlView, broker_id: int, *, clean: bool) -> list[Any]:
    """Return the changes of partitions that follow from a new incarnation of a broker.

    A clean one has all acknowledged records. An unclean one may have lost unsynced records, so it is no longer eligible
    either (KIP-966); without ELR Kafka trusts it anyway.
    """
    if clean or not view.elr_enabled:
        return list(without_broker(view, broker_id, partitions_in_sync_on(view, broker_id)))
    return list(after_unclean_shutdown(view, broker_id, partitions_eligible_on(view, broker_id)))


def offline_directory_records(view: ControlView, broker_id: int, offline: Sequence[DirectoryId]) -> list[Any]:
    """Return the records that follow when log dirs of a broker fail (KIP-858); dirs known as lost are skipped."""
    broker = view.image.cluster.brokers[broker_id]
    lost = {directory for directory in offline if directory in broker.directories}
    if not lost:
        return []
    rows = [row for row in view.partitions() if broker_id in row[2].replicas and row[2].directory_of(broker_id) in lost]
    remaining = tuple(directory for directory in broker.directories if directory not in lost)
    return [*without_broker(view, broker_id, rows), _change(broker, log_dirs=remaining)]


def cordoned_directory_records(view: ControlView, broker_id: int, cordoned: Sequence[DirectoryId] | None) -> list[Any]:
    """Return the record of log dirs that take no new replicas (KIP-1066); older brokers send None."""
    broker = view.image.cluster.brokers[broker_id]
    if cordoned is None or set(cordoned) == set(broker.cordoned_directories):
        return []
    return [_change(broker, cordoned_log_dirs=tuple(cordoned))]


def fence_broker(image: MetadataImage, rules: ControllerRules, broker_id: int, *, broker_epoch: int) -> Outcome[bool]:
    """Fence a broker whose session expired; False if this incarnation is gone or already fenced."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Outcome(result=False)
    return Outcome(result=True, records=fencing_records(ControlView(image, rules), broker_id))


def unregister_broker(image: MetadataImage, rules: ControllerRules, broker_id: int) -> Outcome[None]:
    """Unregister a broker. Raises OperationError (BROKER_ID_NOT_REGISTERED)."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise OperationError(ErrorCode.broker_id_not_registered, f"Broker ID {broker_id} is not currently registered")
    view = ControlView(image, rules)
    # If it returns, its registration is new and unclean: it stays eligible nowhere.
    changes = cleanup_records(view, broker_id, clean=False)
    return Outcome(None, [*changes, UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)])


def _change(broker: BrokerRegistration, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, **changes)
