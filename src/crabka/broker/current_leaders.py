"""The current leader and its address, for clients that asked the wrong broker or in an old epoch (KIP-951).

With it they need not ask for metadata before they try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import NodeEndpoint

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.ids import TopicId

# The errors after which a client has to go elsewhere, for Produce and for Fetch.
MISDIRECTED_PRODUCE = frozenset({int(ErrorCode.not_leader_or_follower)})
MISDIRECTED_FETCH = MISDIRECTED_PRODUCE | {int(ErrorCode.fenced_leader_epoch)}
UNKNOWN_LEADER = (-1, -1)


class CurrentLeaders:
    """The leaders that one response names, with their endpoints on the listener of the client."""

    def __init__(self, context: BrokerContext, listener: str) -> None:
        self._context = context
        self._listener = listener
        self._endpoints: dict[int, NodeEndpoint] = {}

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        """Return where the leaders named so far are; without those that are not there."""
        return list(self._endpoints.values())

    def of(self, topic: str, topic_id: TopicId, index: int) -> tuple[int, int]:
        """Return leader and leader epoch of a partition, given by name or, if that is empty, by topic id."""
        leader = self._find(topic, topic_id, index)
        broker = self._context.image.cluster.brokers.get(leader[0])
        if broker is not None and not broker.fenced:
            endpoint = broker.endpoint(self._listener)
            if endpoint is not None:
                self._endpoints[leader[0]] = NodeEndpoint(leader[0], endpoint.host, endpoint.port, broker.rack)
        return leader

    def _find(self, topic: str, topic_id: TopicId, index: int) -> tuple[int, int]:
        topics = self._context.image.topics
        known = topics.by_name.get(topic) if topic_id == ZERO_UUID else topics.by_id.get(topic_id)
        if known is None:
            return UNKNOWN_LEADER
        # What this node acts by may be older than the image, and never newer.
        hosted = self._context.partitions.get(known.name, index)
        if hosted is not None:
            return hosted.leader_id, hosted.leader_epoch
        partition = known.partitions.get(index)
        return UNKNOWN_LEADER if partition is None else (partition.leader, partition.leader_epoch)
