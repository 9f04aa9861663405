"""Feature levels of the cluster and what this software supports (KIP-584, KIP-1022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.controller.outcome import ACCEPTED, ItemVerdict, Outcome
from crabka.errors import OperationError
from crabka.metadata.records import FeatureLevelRecord
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.metadata.image import MetadataImage

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"

# What a node of this release understands: name to lowest and highest level, as Kafka 4.3 states them.
SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A wish to change one feature."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


def update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
) -> Outcome[dict[str, ItemVerdict]]:
    """Decide on feature changes; one refused change refuses them all."""
    verdicts: dict[str, ItemVerdict] = {}
    records: list[Any] = []
    for update in updates:
        try:
            record = _decide(image, update)
            if record is not None:
                records.append(record)
            verdicts[update.name] = ACCEPTED
        except OperationError as error:
            verdicts[update.name] = ItemVerdict.of(error)
    refused = any(verdict.error_code is not ErrorCode.none for verdict in verdicts.values())
    return Outcome(verdicts, [] if refused or validate_only else records)


def _decide(image: MetadataImage, update: FeatureUpdate) -> FeatureLevelRecord | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise OperationError(
            ErrorCode.invalid_update_version, "The controller does not support the given upgrade type."
        )
    supported = SUPPORTED_FEATURES.get(update.name)
    if supported is None:
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid update version {update.level} for feature {update.name}."
            " This controller does not support this feature.",
        )
    low, high = supported
    if not low <= update.level <= high:
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid update version {update.level} for feature {update.name}. "
            f"This controller only supports versions {low}-{high}",
        )
    return _change(image, update)


def _change(image: MetadataImage, update: FeatureUpdate) -> FeatureLevelRecord | None:
    current = image.features.levels.get(update.name, 0)
    if update.level == current:
        return None
    if update.level < current:
        _check_downgrade(update, current)
    elif update.upgrade_type != UPGRADE:
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid update version {update.level} for feature {update.name}. Can't downgrade to a newer version.",
        )
    if update.name == KRAFT_VERSION:
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid update version {update.level} for feature {update.name}. Formatting the storage decides on it.",
        )
    return FeatureLevelRecord(name=update.name, feature_level=update.level)


def _check_downgrade(update: FeatureUpdate, current: int) -> None:
    if update.upgrade_type == UPGRADE:
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid update version {update.level} for feature {update.name}. Can't downgrade the version of this "
            "feature without setting the upgrade type to either safe or unsafe downgrade.",
        )
    if update.name == METADATA_VERSION:
        # Records of the current level may be in the log already, and older nodes could not read them.
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid metadata.version {update.level}. The cluster is at {current} and metadata.version cannot be "
            "lowered by this node.",
        )
