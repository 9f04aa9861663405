"""What a partition with other replicas must know of its node: time, brokers, limits, and how to propose an ISR.

One object per node, shared by all its partitions. A partition that has no other replica never looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabka.broker.replication.throttle import LEADER_RATE, ReplicationThrottle, throttled_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabka.broker.partition.partition import Partition
    from crabka.broker.replication.isr_state import ProposedIsr
    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.configs import ConfigsImage

DEFAULT_MAX_LAG_MS = 30_000


def _nobody() -> Mapping[int, BrokerRegistration]:
    return {}


def _send_nothing(_partition: Partition, _proposal: ProposedIsr) -> None:
    """Leave a proposal where it is: there is no controller to ask."""


@dataclass(slots=True, kw_only=True)
class ReplicaHost:
    """The node of a replicated partition, seen from the partition."""

    # The clock that all times of replication are of, those passed to `Partition.become` included.
    now_ms: Callable[[], int]
    # The registered brokers of the newest metadata.
    brokers: Callable[[], Mapping[int, BrokerRegistration]] = _nobody
    # `replica.lag.time.max.ms`, which is looked up each time.
    max_lag_ms: Callable[[], int] = lambda: DEFAULT_MAX_LAG_MS
    # Sends a change of the ISR to the controller: `IsrChanges.propose`.
    propose: Callable[[Partition, ProposedIsr], None] = _send_nothing
    # What followers of throttled replicas may be sent (KIP-73).
    throttle: ReplicationThrottle = field(default_factory=ReplicationThrottle)

    def take_rate(self, configs: ConfigsImage, node_id: int) -> None:
        """Throttle by what the settings say from now on; called at the start and whenever those of brokers change."""
        self.throttle.bytes_per_second = throttled_rate(configs, node_id, LEADER_RATE)


# For partitions that were made without a node: time stands still and there are no brokers.
NO_HOST = ReplicaHost(now_ms=lambda: 0)
