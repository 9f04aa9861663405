"""A partition that a fetcher follows, in one leader epoch: what decides, what is decided about, what was asked last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.replication.follower_state import FollowerFetching
from crabka.broker.replication.throttle import is_throttled_replica
from crabka.protocol.hot.follower_fetch import pack_fetch_partition

if TYPE_CHECKING:
    from crabka.broker.partition.partition import Partition
    from crabka.broker.replication.follower_session import FetchKey
    from crabka.broker.replication.follower_state import FollowerPosition


class FollowedPartition:
    """One partition in the hands of one fetcher. Hashed and compared by identity."""

    __slots__ = ("asked", "fetching", "is_current", "key", "lag", "leader_epoch", "leader_id", "partition")

    def __init__(self, partition: Partition, *, backoff_ms: int) -> None:
        self.partition = partition
        self.key: FetchKey = (partition.topic_id.bytes, partition.index)
        self.leader_id = partition.leader_id
        self.leader_epoch = partition.leader_epoch
        self.fetching = FollowerFetching(partition.leader_epoch, backoff_ms=backoff_ms)
        # Of the request that was sent last.
        self.asked: FollowerPosition | None = None
        # How far the log is behind what the leader knows as committed; None before the first answer.
        self.lag: int | None = None
        # False from the moment at which another owner decides on the log: a new leader, or this node as leader.
        self.is_current = True

    def pack(self, max_bytes: int) -> bytes:
        """Return what a request says of the partition, and remember it as what was asked."""
        log = self.partition.log
        self.asked = asked = self.fetching.position(log)
        return pack_fetch_partition(
            self.partition.index,
            leader_epoch=asked.leader_epoch,
            fetch_offset=asked.fetch_offset,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=log.log_start_offset,
            max_bytes=max_bytes,
        )

    def is_throttled(self, node_id: int) -> bool:
        """Return whether the topic's settings name this replica as one whose fetching is throttled (KIP-73)."""
        setting = self.partition.log.config.follower_replication_throttled_replicas
        return bool(setting) and is_throttled_replica(setting, self.partition.index, node_id)
