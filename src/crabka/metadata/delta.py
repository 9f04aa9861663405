"""Replay of metadata records on top of an image.

A delta gathers changes and makes the next image; it also says what changed, so that a subsystem need not compare
images. Records of a metadata transaction (KIP-868) must be held back until it ends: `crabka.metadata.replay` does so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from crabka.metadata.cluster import ClusterDelta
from crabka.metadata.configs import ConfigResource, ConfigsDelta
from crabka.metadata.features import FeaturesDelta
from crabka.metadata.image import MetadataImage, ProducerIdsImage
from crabka.metadata.records import MetadataRecord, RecordType
from crabka.metadata.security import SecurityDelta
from crabka.metadata.topics import TopicsDelta


class MetadataChanges(Protocol):
    """The changes between an image and the next one, for the parts of a node that follow the metadata."""

    @property
    def image(self) -> MetadataImage:
        """The image before the changes."""
        ...

    @property
    def topics_created(self) -> set[UUID]:
        """Ids of topics that the image does not have."""
        ...

    @property
    def topics_changed(self) -> set[UUID]:
        """Ids of topics of the image with new or changed partitions."""
        ...

    @property
    def topics_deleted(self) -> set[UUID]:
        """Ids of topics of the image that are gone; their names are in `image`."""
        ...

    @property
    def configs_changed(self) -> set[ConfigResource]:
        """Resources with a config record, also if the value is the same."""
        ...

    @property
    def features_changed(self) -> bool:
        """True if a feature level was set."""
        ...

    @property
    def brokers_changed(self) -> set[int]:
        """Ids of brokers that registered, changed or left."""
        ...

    @property
    def acls_changed(self) -> set[UUID]:
        """Ids of ACLs that were created or deleted."""
        ...


class MetadataDelta:
    """Changes on top of an image; replay records, then apply once."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._features = FeaturesDelta(image.features)
        self._cluster = ClusterDelta(image.cluster)
        self._topics = TopicsDelta(image.topics)
        self._configs = ConfigsDelta(image.configs)
        self._security = SecurityDelta(image.acls, image.scram, image.delegation_tokens, image.client_quotas)
        self._next_producer_id = image.producer_ids.next_producer_id
        self._handlers = self._handler_table()

    @property
    def topics_created(self) -> set[UUID]:
        """Ids of topics that the image does not have."""
        return self._topics.created

    @property
    def topics_changed(self) -> set[UUID]:
        """Ids of topics of the image with new or changed partitions."""
        return self._topics.changed

    @property
    def topics_deleted(self) -> set[UUID]:
        """Ids of topics of the image that are gone; their names are in `image`."""
        return self._topics.deleted

    @property
    def configs_changed(self) -> set[ConfigResource]:
        """Resources with a config record, also if the value is the same."""
        return self._configs.changed

    @property
    def features_changed(self) -> bool:
        """True if a feature level was set."""
        return self._features.changed

    @property
    def brokers_changed(self) -> set[int]:
        """Ids of brokers that registered, changed or left."""
        return self._cluster.changed_brokers

    @property
    def acls_changed(self) -> set[UUID]:
        """Ids of ACLs that were created or deleted."""
        return self._security.acls_changed

    def replay(self, record: MetadataRecord) -> None:
        """Add one record. Raises CorruptDataError if it contradicts the metadata before it."""
        self._handlers[record.__api_key__](record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """Return the image that has seen everything up to and including `offset`."""
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            features=self._features.apply(),
            cluster=self._cluster.apply(),
            topics=self._topics.apply(),
            configs=self._configs.apply(),
            client_quotas=self._security.quotas(),
            producer_ids=ProducerIdsImage(self._next_producer_id),
            acls=self._security.acls(),
            scram=self._security.scram(),
            delegation_tokens=self._security.tokens(),
        )

    def _handler_table(self) -> dict[int, Callable[[Any], object]]:
        return {
            RecordType.FEATURE_LEVEL: self._features.set_level,
            RecordType.REGISTER_BROKER: self._cluster.register_broker,
            RecordType.UNREGISTER_BROKER: self._cluster.unregister_broker,
            RecordType.FENCE_BROKER: self._cluster.fence_broker,
            RecordType.UNFENCE_BROKER: self._cluster.unfence_broker,
            RecordType.BROKER_REGISTRATION_CHANGE: self._cluster.change_broker,
            RecordType.REGISTER_CONTROLLER: self._cluster.register_controller,
            RecordType.TOPIC: self._create_topic,
            RecordType.REMOVE_TOPIC: self._remove_topic,
            RecordType.PARTITION: self._topics.create_partition,
            RecordType.PARTITION_CHANGE: self._topics.change_partition,
            RecordType.CLEAR_ELR: self._topics.clear_elr,
            RecordType.CONFIG: self._configs.set_config,
            RecordType.CLIENT_QUOTA: self._security.set_quota,
            RecordType.PRODUCER_IDS: self._set_producer_ids,
            RecordType.ACCESS_CONTROL_ENTRY: self._security.add_acl,
            RecordType.REMOVE_ACCESS_CONTROL_ENTRY: self._security.remove_acl,
            RecordType.USER_SCRAM_CREDENTIAL: self._security.set_scram,
            RecordType.REMOVE_USER_SCRAM_CREDENTIAL: self._security.remove_scram,
            RecordType.DELEGATION_TOKEN: self._security.set_token,
            RecordType.REMOVE_DELEGATION_TOKEN: self._security.remove_token,
            RecordType.NO_OP: _ignore,
            # Kafka 4 reads this record of a finished migration from ZooKeeper and does nothing with it.
            RecordType.ZK_MIGRATION_STATE: _ignore,
        }

    def _create_topic(self, record: Any) -> None:
        # A JVM snapshot may hold configs of a topic long gone; a new topic of that name must not inherit them.
        # Configs of the new topic follow its TopicRecord, in the log as in snapshots.
        self._configs.remove_topic(record.name)
        self._topics.create_topic(record)

    def _remove_topic(self, record: Any) -> None:
        self._configs.remove_topic(self._topics.remove_topic(record))

    def _set_producer_ids(self, record: Any) -> None:
        self._next_producer_id = record.next_producer_id


def _ignore(_record: Any) -> None:
    """Take note of nothing."""
