"""A partition of many replicas on a log in memory, with a clock and brokers that a test turns."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from crabka.broker.fetch.sessions import FIRST_VERSION_WITH_REPLICA_STATE
from crabka.broker.partition.partition import Partition
from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.broker.replication.host import ReplicaHost
from crabka.broker.replication.isr_state import ProposedIsr
from crabka.config.topic import TopicConfig
from crabka.metadata.topics import PartitionImage
from crabka.protocol.apis import ApiKey, request_types
from crabka.records.header import parse_header
from tests.support.nodes.sim_node import SimNode, fetch_body
from tests.support.quorum.images import cluster
from tests.support.storage.small import make_batch, open_test_log

ME = 1
TOPIC_ID = uuid.UUID(int=77)
EPOCH = 5


def replicated_image(
    *isr: int,
    replicas: Sequence[int] = (1, 2, 3),
    leader: int = ME,
    leader_epoch: int = EPOCH,
    partition_epoch: int = 10,
) -> PartitionImage:
    """Return the metadata of a partition."""
    return PartitionImage(
        replicas=tuple(replicas),
        isr=isr or tuple(replicas),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=(uuid.UUID(int=100),) * len(replicas),
    )


class ReplicaWorld:
    """The node around a partition: time, brokers 1 to 3 with their ids as epochs, and the proposals that were made."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.brokers = dict(cluster(1, 2, 3).cluster.brokers)
        self.max_lag_ms = 1000
        self.proposals: list[ProposedIsr] = []
        self.host = ReplicaHost(
            now_ms=lambda: self.now_ms,
            brokers=lambda: self.brokers,
            max_lag_ms=lambda: self.max_lag_ms,
            propose=self._propose,
        )

    def _propose(self, _partition: Partition, proposal: ProposedIsr) -> None:
        self.proposals.append(proposal)


class LedPartition:
    """A partition that node 1 hosts, and leads by default."""

    def __init__(self, image: PartitionImage | None = None, *, min_isr: int = 1) -> None:
        self.world = ReplicaWorld()
        # The time stands still, so no append is slow.
        writer: Any = SimpleNamespace(now_ms=lambda: 0, slow_append_ms=1)
        log = open_test_log(config=TopicConfig(min_insync_replicas=min_isr))
        self.partition = Partition("orders", 0, TOPIC_ID, log, writer, host=self.world.host)
        self.become(image or replicated_image())

    def become(self, image: PartitionImage) -> None:
        """Publish metadata."""
        self.partition.become(image, node_id=ME, broker_epoch=ME, now_ms=self.world.now_ms)

    def append(self, count: int = 1) -> int:
        """Append a batch as leader; return its size."""
        batch = make_batch(count)
        self.partition.append(batch, parse_header(batch), 0)
        return len(batch)

    def fetch(self, follower: int, offset: int, *, log_start: int = 0, broker_epoch: int | None = None) -> None:
        """Let a follower fetch from an offset."""
        epoch = follower if broker_epoch is None else broker_epoch
        self.partition.followers.fetched(follower, FollowerFetch(offset, log_start, epoch))

    @property
    def high_watermark(self) -> int:
        """Up to where consumers may read."""
        return self.partition.log.high_watermark


def give_followers(node: SimNode, topic: str, *isr: int, leader: int = ME) -> ReplicaWorld:
    """Let a partition of a running node believe that brokers 2 and 3 have replicas of it, in the next leader epoch.

    It lasts until the metadata of the topic changes.
    """
    world = ReplicaWorld()
    partition = node.context.partitions.by_name(topic, 0)
    partition.host = world.host
    image = replicated_image(*isr, leader=leader, leader_epoch=partition.leader_epoch + 1)
    partition.become(image, node_id=ME, broker_epoch=ME)
    return world


def fetch_as(follower: int, topic: Any, offset: int, *, version: int = 12, **options: Any) -> Any:
    """Build the Fetch of a follower; since version 15 with its id as epoch unless another one is given."""
    epoch = options.pop("broker_epoch", follower)
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        types = request_types(int(ApiKey.FETCH), version)
        options["replica_state"] = types.new("ReplicaState", replica_id=follower, replica_epoch=epoch)
    else:
        options["replica_id"] = follower
    return fetch_body([(topic, 0, offset)], version=version, **options)
