"""Puts the tiering of a broker together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.broker.tiering.bootstrap.leader_start import LeaderStart
from crabka.broker.tiering.expire.cluster_facts import BrokerClusterFacts
from crabka.broker.tiering.manager import TierHooks, TieringManager
from crabka.broker.tiering.metadata.tier_metadata import TierMetadata
from crabka.broker.tiering.metadata.topic import MetadataTopicHost
from crabka.broker.tiering.stats import TierStats
from crabka.broker.tiering.tools import TierTools
from crabka.errors import CrabkaError, InvariantError
from crabka.remote.plugins import load_storage_manager

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.broker.lifecycle.assembly import BrokerParts
    from crabka.broker.tiering.read.reader import RemoteReads
    from crabka.config.server import ServerConfig
    from crabka.metadata.cluster import Endpoint
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class BrokerTiering:
    """The tiering of a broker."""

    manager: TieringManager
    topic: MetadataTopicHost

    def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Begin; the broker listens at these endpoints from now on."""
        self.topic.endpoints = endpoints
        self.manager.start()

    def on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        """Note a change of the cluster, in addition to the publisher's notifications."""
        self.topic.on_metadata(delta, image)


def build_tiering(
    parts: BrokerParts, config: Callable[[], ServerConfig], remote_reads: Callable[[], RemoteReads | None]
) -> BrokerTiering:
    """Make the tiering of a broker. Raises ConfigError."""
    tools = TierTools(
        broker_id=parts.config.node_id,
        runtime=parts.runtime,
        config=config,
        storage=load_storage_manager(parts.config, parts.runtime.fs),
        metadata=TierMetadata(),
        stats=TierStats(),
        flush_logs=lambda: parts.logs.flush_dirty(parts.runtime.clock.now_ms()),
        save_log_starts=parts.logs.save_log_starts,
    )

    def on_failure(error: BaseException) -> None:
        broken = error if isinstance(error, CrabkaError) else InvariantError(f"the remote tier failed: {error!r}")
        parts.fail(broken)

    topic = MetadataTopicHost(parts.config, parts.runtime, image=lambda: parts.quorum.image, on_failure=on_failure)
    hooks = TierHooks(
        start_metadata=topic.start,
        stop_metadata=topic.stop,
        cluster=BrokerClusterFacts(
            parts.quorum, parts.controller, timeout_ms=parts.config.controller_socket_timeout_ms
        ),
        on_dir_failure=parts.logs.on_dir_failure,
        on_broken_invariant=parts.fail,
        leader_start=LeaderStart(tools.metadata, FollowerTier(remote_reads, parts.logs)),
    )
    return BrokerTiering(TieringManager(tools, hooks), topic)
