"""The controller's view of an image: which brokers may lead, and which rules apply to a topic.

It makes no decisions. Settings are looked up as in Kafka's ConfigurationControlManager: those of the topic, then
dynamic ones of the controller's own node, then those of all brokers, then the controller's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.ids import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.features import DIRECTORIES_LEVEL, ELR_VERSION
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.config.server import ServerConfig
    from crabka.ids import DirectoryId, TopicId
    from crabka.metadata.cluster import BrokerRegistration
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class ControllerRules:
    """Settings of the controller's file, used where the metadata has none."""

    node_id: int = -1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False

    @classmethod
    def of(cls, static_config: ServerConfig) -> ControllerRules:
        """Return the rules in a node's file; dynamic settings come from the metadata."""
        return cls(
            node_id=static_config.node_id,
            min_insync_replicas=static_config.min_insync_replicas,
            unclean_leader_election=static_config.unclean_leader_election_enable,
        )


DEFAULT_RULES = ControllerRules()


class ControlView:
    """One image with the controller's rules; made for one decision and dropped with it."""

    def __init__(self, image: MetadataImage, rules: ControllerRules = DEFAULT_RULES) -> None:
        self.image = image
        self.elr_enabled = image.features.level(ELR_VERSION) > 0
        self.metadata_version = image.features.metadata_version
        self._rules = rules
        self._min_isr: dict[TopicId, int] = {}

    @property
    def directories_supported(self) -> bool:
        """True if the metadata has the log dir of each replica (KIP-858)."""
        return self.metadata_version >= DIRECTORIES_LEVEL

    def is_active(self, broker_id: int) -> bool:
        """Return whether a broker is registered, unfenced and not shutting down."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def has_online_directory(self, broker_id: int, directory: DirectoryId) -> bool:
        """Return whether a replica in this log dir of a broker can be reached, as far as the metadata knows."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.has_online_directory(directory)

    def default_directory(self, broker_id: int) -> DirectoryId:
        """Return the log dir of a new replica: known at once for a broker with one dir, else reported by it later."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            return DIRECTORY_UNASSIGNED
        if not broker.directories:
            return DIRECTORY_MIGRATING
        return broker.directories[0] if len(broker.directories) == 1 else DIRECTORY_UNASSIGNED

    def min_isr(self, topic: TopicImage) -> int:
        """Return min.insync.replicas of a topic, at most its replication factor."""
        known = self._min_isr.get(topic.topic_id)
        if known is None:
            text = self._topic_setting(topic.name, MIN_ISR)
            wanted = self._rules.min_insync_replicas if text is None else int(text)
            first = topic.partitions.get(0)
            known = wanted if first is None else min(wanted, len(first.replicas))
            self._min_isr[topic.topic_id] = known
        return known

    def unclean_election_enabled(self, topic: TopicImage) -> bool:
        """Return whether a replica that may lack acknowledged records may lead if no other replica can."""
        text = self._topic_setting(topic.name, UNCLEAN_ELECTION)
        return self._rules.unclean_leader_election if text is None else text.strip().lower() == "true"

    def require_broker_epoch(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        """Return a registration; raise OperationError (STALE_BROKER_EPOCH) if it has another epoch."""
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            raise OperationError(
                ErrorCode.stale_broker_epoch, f"No broker registration found for broker id {broker_id}"
            )
        if broker.epoch != broker_epoch:
            raise OperationError(
                ErrorCode.stale_broker_epoch,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """Yield every partition with its topic and index."""
        for topic in self.image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def _topic_setting(self, topic: str, key: str) -> str | None:
        configs = self.image.configs
        for layer in (
            configs.get(ConfigResourceType.TOPIC, topic),
            configs.get(ConfigResourceType.BROKER, str(self._rules.node_id)),
            configs.get(ConfigResourceType.BROKER, ""),
        ):
            if key in layer:
                return layer[key]
        return None
