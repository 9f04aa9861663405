"""Feature levels of the cluster and which of them may be changed (KIP-584, KIP-1022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError
from crabka.metadata.cluster import VersionRange
from crabka.metadata.configs import ConfigResourceType
from crabka.metadata.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from crabka.metadata.records import ConfigRecord, FeatureLevelRecord
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from crabka.metadata.image import MetadataImage

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

# The level of another feature that a level of a feature requires.
_DEPENDENCIES: dict[tuple[str, int], tuple[str, int]] = {(ELR_VERSION, 1): (METADATA_VERSION, 23)}
_DISABLED = VersionRange(0, 0)
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A requested change of one feature."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureScope:
    """The nodes that must support a change besides the registered ones, and settings of the controller's file."""

    node_id: int = -1
    # A voter that has not registered may be too old; this node itself is known.
    voters: Collection[int] = ()
    min_insync_replicas: int = 1
    # Not a record of the metadata: the quorum itself stores it.
    kraft_version: int = 0


THIS_NODE_ALONE = FeatureScope()


def update_features(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    scope: FeatureScope = THIS_NODE_ALONE,
    *,
    validate_only: bool = False,
) -> Outcome[dict[str, ItemVerdict]]:
    """Decide on feature changes; one refused change refuses them all.

    kraft.version has no record: the caller must raise it through the quorum.
    """
    verdicts: dict[str, ItemVerdict] = {}
    records: list[Any] = []
    proposed = {
        **image.features.levels,
        METADATA_VERSION: image.features.metadata_version,
        **{update.name: update.level for update in updates},
    }
    for update in updates:
        try:
            record = _decide(image, update, scope, proposed)
            if record is not None:
                records.append(record)
            verdicts[update.name] = ACCEPTED
        except OperationError as error:
            verdicts[update.name] = ItemVerdict.of(error)
    refused = any(verdict.error_code is not ErrorCode.none for verdict in verdicts.values())
    if refused or validate_only:
        return Outcome(verdicts)
    turns_elr_on = any(update.name == ELR_VERSION and update.level > 0 for update in updates)
    return Outcome(verdicts, [*(_common_min_isr(image, scope) if turns_elr_on else ()), *records])


def _decide(
    image: MetadataImage, update: FeatureUpdate, scope: FeatureScope, proposed: Mapping[str, int]
) -> FeatureLevelRecord | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    _check_support(image, update, scope)
    record = _change(image, update, scope)
    needed = _DEPENDENCIES.get((update.name, update.level))
    if record is not None and needed is not None and proposed.get(needed[0], 0) < needed[1]:
        raise _invalid(
            update,
            f"{update.name} could not be set to {update.level} because it depends on {needed[0]} level {needed[1]}",
        )
    return record


def _check_support(image: MetadataImage, update: FeatureUpdate, scope: FeatureScope) -> None:
    """Every node must support a level: this controller, all brokers, fenced or not, and all other controllers."""
    own = SUPPORTED_FEATURES.get(update.name)
    if own is None:
        raise _invalid(update, "This controller does not support this feature.")
    _check_range(update, "This controller", own)
    for broker in image.cluster.brokers.values():
        _check_range(update, f"Broker {broker.broker_id}", broker.features.get(update.name, _DISABLED))
    if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return
    others = {key: each for key, each in image.cluster.controllers.items() if key != scope.node_id}
    for controller in others.values():
        _check_range(update, f"Controller {controller.controller_id}", controller.features.get(update.name, _DISABLED))
    for voter in sorted(scope.voters):
        if voter != scope.node_id and voter not in others:
            raise _invalid(update, f"controller {voter} has not registered, and may not support this feature")


def _check_range(update: FeatureUpdate, who: str, supported: VersionRange) -> None:
    low, high = supported
    if low <= update.level <= high:
        return
    raise _invalid(
        update,
        f"{who} does not support this feature." if high == 0 else f"{who} only supports versions {low}-{high}",
    )


def _change(image: MetadataImage, update: FeatureUpdate, scope: FeatureScope) -> FeatureLevelRecord | None:
    is_kraft = update.name == KRAFT_VERSION
    current = scope.kraft_version if is_kraft else image.features.levels.get(update.name, 0)
    if update.level == current:
        return None
    if update.level < current:
        _check_downgrade(update, current)
    elif update.upgrade_type != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    return None if is_kraft else FeatureLevelRecord(name=update.name, feature_level=update.level)


def _check_downgrade(update: FeatureUpdate, current: int) -> None:
    if update.upgrade_type == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if update.name == KRAFT_VERSION:
        raise _invalid(update, "Can't downgrade the version of this feature.")
    if update.name == METADATA_VERSION:
        # Records of the current level may be in the log already, and older nodes could not read them.
        raise OperationError(
            ErrorCode.invalid_update_version,
            f"Invalid metadata.version {update.level}. The cluster is at {current} and metadata.version cannot be "
            "lowered by this node.",
        )


def _common_min_isr(image: MetadataImage, scope: FeatureScope) -> list[ConfigRecord]:
    """Eligible leaders need one minimum for all brokers (KIP-966): set it for the cluster, drop those of brokers."""
    records = []
    for resource, values in image.configs.resources.items():
        if resource.resource_type == ConfigResourceType.BROKER and resource.name and _MIN_ISR in values:
            records.append(_min_isr_record(resource.name, None))
    if _MIN_ISR not in image.configs.get(ConfigResourceType.BROKER, ""):
        records.insert(0, _min_isr_record("", str(scope.min_insync_replicas)))
    return records


def _min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ConfigResourceType.BROKER, resource_name=broker, name=_MIN_ISR, value=value)


def _invalid(update: FeatureUpdate, reason: str) -> OperationError:
    return OperationError(
        ErrorCode.invalid_update_version,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
