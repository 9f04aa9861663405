"""What changed between two images that no run of records connects, as when a snapshot replaced the log (KIP-630)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from crabka.metadata.configs import ConfigResource
from crabka.metadata.image import MetadataImage

K = TypeVar("K")


class ImageDifference:
    """The changes between two images (`MetadataChanges`)."""

    def __init__(self, before: MetadataImage, after: MetadataImage) -> None:
        self.image = before
        self._after = after

    @property
    def topics_created(self) -> set[UUID]:
        """Ids of topics that only the later image has."""
        return self._after.topics.by_id.keys() - self.image.topics.by_id.keys()

    @property
    def topics_changed(self) -> set[UUID]:
        """Ids of topics that differ."""
        return _changed(self.image.topics.by_id, self._after.topics.by_id) - self.topics_created - self.topics_deleted

    @property
    def topics_deleted(self) -> set[UUID]:
        """Ids of topics that only the earlier image has."""
        return self.image.topics.by_id.keys() - self._after.topics.by_id.keys()

    @property
    def configs_changed(self) -> set[ConfigResource]:
        """Resources whose configs differ."""
        return _changed(self.image.configs.resources, self._after.configs.resources)

    @property
    def features_changed(self) -> bool:
        """True if the levels differ."""
        return self.image.features != self._after.features

    @property
    def brokers_changed(self) -> set[int]:
        """Ids of brokers whose registrations differ."""
        return _changed(self.image.cluster.brokers, self._after.cluster.brokers)

    @property
    def acls_changed(self) -> set[UUID]:
        """Ids of ACLs that differ."""
        return _changed(self.image.acls.entries, self._after.acls.entries)


def _changed(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
