"""Finalized feature levels: their part of the image, how records change it, and what this release supports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from crabka.metadata.cluster import VersionRange
from crabka.metadata.draft import MappingDraft
from crabka.metadata.records import FeatureLevelRecord, MetadataVersionError

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELR_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"

# 3.3-IV3 and 4.3-IV0.
MIN_METADATA_VERSION = 7
LATEST_METADATA_VERSION = 30
LATEST_KRAFT_VERSION = 1

# metadata.version levels from which something holds. 3.6-IV0: a shrunk ISR needs no new leader epoch.
NO_EPOCH_ON_SHRINK_LEVEL = 12
# 3.7-IV0 (KIP-919), 3.7-IV2 (KIP-858) and 4.3-IV0 (KIP-1066).
CONTROLLER_REGISTRATION_LEVEL = 15
DIRECTORIES_LEVEL = 17
CORDONED_DIRECTORIES_LEVEL = 30

# What this release can read. Records of share and streams groups are kept as they are, their APIs are not served.
SUPPORTED_FEATURES: Mapping[str, VersionRange] = {
    ELR_VERSION: VersionRange(0, 1),
    GROUP_VERSION: VersionRange(0, 1),
    KRAFT_VERSION: VersionRange(0, LATEST_KRAFT_VERSION),
    METADATA_VERSION: VersionRange(MIN_METADATA_VERSION, LATEST_METADATA_VERSION),
    SHARE_VERSION: VersionRange(0, 1),
    STREAMS_VERSION: VersionRange(0, 1),
    TRANSACTION_VERSION: VersionRange(0, 2),
}

# Levels of a new cluster, in the order in which Kafka writes them.
DEFAULT_FEATURE_LEVELS: Mapping[str, int] = {
    METADATA_VERSION: LATEST_METADATA_VERSION,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    TRANSACTION_VERSION: 2,
}

# fmt: off
_RELEASES = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1",
    "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0",
    "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
)
# fmt: on
METADATA_VERSION_NAMES: Mapping[int, str] = dict(enumerate(_RELEASES, start=MIN_METADATA_VERSION))


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized levels; a feature at level 0 has no entry."""

    levels: Mapping[str, int] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        """The metadata.version level; the newest one while no record has set it, as in a log that is just beginning."""
        return self.levels.get(METADATA_VERSION, LATEST_METADATA_VERSION)

    def level(self, name: str) -> int:
        """Return the finalized level of a feature, 0 if it is off."""
        return self.levels.get(name, 0)

    def to_records(self) -> Iterator[Any]:
        """Yield the records that rebuild this part; metadata.version leads, it says how to read the rest."""
        if METADATA_VERSION in self.levels:
            yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.levels[METADATA_VERSION])
        for name, level in self.levels.items():
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name=name, feature_level=level)


class FeaturesDelta:
    """Changes of feature levels on top of an image."""

    def __init__(self, image: FeaturesImage) -> None:
        self._image = image
        self._levels = MappingDraft(image.levels)

    @property
    def changed(self) -> bool:
        """True if any record set a level."""
        return self._levels.current is not self._image.levels

    def set_level(self, record: Any) -> None:
        """Replay FeatureLevelRecord.

        Raises MetadataVersionError for a metadata.version or level of a known feature that we cannot read.
        """
        supported = SUPPORTED_FEATURES.get(record.name)
        if supported is not None and record.feature_level > supported.max_version:
            raise MetadataVersionError(
                f"{record.name} level {record.feature_level}: this release supports up to {supported.max_version}"
            )
        if record.name == METADATA_VERSION and record.feature_level < MIN_METADATA_VERSION:
            raise MetadataVersionError(f"metadata.version {record.feature_level} is older than {MIN_METADATA_VERSION}")
        if record.feature_level == 0:
            self._levels.remove(record.name)
        else:
            self._levels.set(record.name, record.feature_level)

    def apply(self) -> FeaturesImage:
        """Return the image with the changes."""
        return FeaturesImage(self._levels.current) if self.changed else self._image
