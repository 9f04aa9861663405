"""Which replica a consumer should fetch from (KIP-392). The leader decides; its Fetch response has the decision. PURE.

Kafka: RackAwareReplicaSelector and the choice of candidates in ReplicaManager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica that a consumer could fetch from, as the leader knows it."""

    broker_id: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    # How long ago it was caught up; 0 for the leader.
    lag_ms: int = 0


def closest_replica(
    replicas: Iterable[ReplicaView], *, leader_id: int, isr: Collection[int], client_rack: str | None, fetch_offset: int
) -> int | None:
    """Return the broker to fetch from, None if that is the leader itself.

    A follower is good enough if it is in the client's rack, in sync, and has the wanted offset; the leader is better if
    it is in that rack, too. Of many the one that has most is taken, then the one that was caught up last.
    """
    if not client_rack:
        return None
    near = [each for each in replicas if each.rack == client_rack]
    if any(each.broker_id == leader_id for each in near):
        return None
    candidates = [
        each for each in near if each.broker_id in isr and each.log_start_offset <= fetch_offset <= each.log_end_offset
    ]
    if not candidates:
        return None
    return max(candidates, key=lambda each: (each.log_end_offset, -each.lag_ms, each.broker_id)).broker_id
