"""Which fetcher follows which partition (Kafka's ReplicaFetcherManager).

A leader has one fetcher, or `num.replica.fetchers` of them among which its partitions are spread. A fetcher that has
nothing left to follow ends.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from crabka.broker.replication.fetch_list import BrokerAddress, FetcherTools
from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_changes import FollowerChanges
from crabka.broker.replication.leader_fetcher import LeaderFetcher
from crabka.broker.replication.throttle import FOLLOWER_RATE, ReplicationThrottle, throttled_rate
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.broker.partition.partition import Partition
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
    from crabka.config.server import ServerConfig
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn


class ReplicaFetchers:
    """The fetchers of a node. All methods run on the loop."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: PartitionRegistry,
        identity: BrokerIdentity,
        *,
        spawn: Spawn,
        config: Callable[[], ServerConfig],
        image: Callable[[], MetadataImage],
        on_dir_failure: Callable[[str, Exception], None],
        save_recovery_points: Callable[[Iterable[str]], Awaitable[None]],
        tier: FollowerTier,
        security: ClientSecurity = UNPROTECTED,
    ) -> None:
        self._identity = identity
        self._config = config
        self._image = image
        self._throttle = ReplicationThrottle()
        changes = FollowerChanges(
            runtime.clock,
            partitions,
            on_dir_failure=on_dir_failure,
            save_recovery_points=save_recovery_points,
            tier=tier,
        )
        self._tools = FetcherTools(
            runtime,
            identity,
            changes,
            self._throttle,
            config=config,
            address_of=self._address_of,
            spawn=spawn,
            security=security,
        )
        self._fetchers: dict[tuple[int, int], LeaderFetcher] = {}
        self._held: set[Partition] = set()
        self._followed: dict[Partition, tuple[FollowedPartition, tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._fetchers)

    @property
    def followed_count(self) -> int:
        """Return how many partitions are fetched."""
        return len(self._followed)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader in its leader epoch; nothing changes if that is done already."""
        if partition in self._held:
            return
        present = self._followed.get(partition)
        if present is not None:
            followed = present[0]
            if (followed.leader_id, followed.leader_epoch) == (partition.leader_id, partition.leader_epoch):
                return
            self.unfollow(partition)
        place = (partition.leader_id, self._fetcher_of(partition))
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = LeaderFetcher(self._tools, *place)
        followed = FollowedPartition(partition, backoff_ms=self._config().replica_fetch_backoff_ms)
        self._followed[partition] = (followed, place)
        fetcher.add(followed)

    def hold(self, partition: Partition) -> None:
        """Fetch a partition no longer, whatever the metadata says, until `release`."""
        self._held.add(partition)
        self.unfollow(partition)

    def release(self, partition: Partition) -> None:
        """Fetch a partition again if another broker leads it."""
        self._held.discard(partition)
        if not partition.is_leader and partition.leader_id >= 0:
            self.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        """Fetch a partition no longer; one that is not fetched is fine."""
        present = self._followed.pop(partition, None)
        if present is None:
            return
        followed, place = present
        fetcher = self._fetchers[place]
        fetcher.remove(followed)
        if not len(fetcher):
            del self._fetchers[place]
            fetcher.stop()

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        """Take over addresses of leaders and the throttle; partitions come and go by `follow` and `unfollow`."""
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id in delta.brokers_changed:
                fetcher.leader_changed()
        if any(resource.resource_type == ConfigResourceType.BROKER for resource in delta.configs_changed):
            self.read_throttle(image)

    def read_throttle(self, image: MetadataImage) -> None:
        """Take over the rate of throttled followers, which only the metadata knows (KIP-73)."""
        self._throttle.bytes_per_second = throttled_rate(image.configs, self._identity.node_id, FOLLOWER_RATE)

    async def close(self) -> None:
        """Follow no leader any more; no fetcher runs on return."""
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._followed.clear()
        for fetcher in fetchers:
            fetcher.stop()
        for fetcher in fetchers:
            await fetcher.wait_stopped()

    def _fetcher_of(self, partition: Partition) -> int:
        count = self._config().num_replica_fetchers
        return 0 if count == 1 else (zlib.crc32(partition.topic.encode()) + partition.index) % count

    def _address_of(self, broker_id: int) -> BrokerAddress | None:
        broker = self._image().cluster.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._config().inter_broker_listener_name)
        return None if broker is None or endpoint is None else BrokerAddress(endpoint, broker.epoch)
