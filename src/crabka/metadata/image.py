"""The whole metadata of a cluster at one offset of its log, immutable.

An image is made by replaying records (`crabka.metadata.delta`) and turned back into records for a snapshot. A holder
may keep it for any time: later changes make new images that share what did not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from crabka.metadata.cluster import ClusterImage
from crabka.metadata.configs import ConfigsImage
from crabka.metadata.features import FeaturesImage
from crabka.metadata.records import ProducerIdsRecord, at_version, record_version
from crabka.metadata.security import AclsImage, ClientQuotasImage, DelegationTokenImage, ScramImage
from crabka.metadata.topics import TopicsImage


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """The first producer id that has not been handed out; -1 while none was."""

    next_producer_id: int = -1

    def to_records(self) -> Iterator[Any]:
        """Yield the record that rebuilds this part."""
        if self.next_producer_id >= 0:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """All metadata up to and including `offset`, whose record was written in leader epoch `epoch`."""

    offset: int = -1
    epoch: int = -1
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    client_quotas: ClientQuotasImage = field(default_factory=ClientQuotasImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    acls: AclsImage = field(default_factory=AclsImage)
    scram: ScramImage = field(default_factory=ScramImage)
    delegation_tokens: DelegationTokenImage = field(default_factory=DelegationTokenImage)

    @property
    def is_empty(self) -> bool:
        """True if no record that says anything was replayed yet."""
        return not self.features.levels and not self.topics.by_id and not self.cluster.brokers

    def to_records(self) -> list[Any]:
        """Return the records that rebuild this image, in Kafka's snapshot order and the cluster's versions."""
        records = [
            *self.features.to_records(),
            *self.cluster.to_records(),
            *self.topics.to_records(),
            *self.configs.to_records(),
            *self.client_quotas.to_records(),
            *self.producer_ids.to_records(),
            *self.acls.entries.values(),
            *self.scram.credentials.values(),
            *self.delegation_tokens.tokens.values(),
        ]
        level = self.features.metadata_version
        return [_at_level(record, level) for record in records]


def _at_level(record: Any, metadata_version: int) -> Any:
    version = record_version(record, metadata_version)
    return record if version == record.__version__ else at_version(record, version)


EMPTY_IMAGE = MetadataImage()
