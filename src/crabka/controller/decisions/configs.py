"""Changing dynamic configs: checked against what exists, written as ConfigRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.config.alter import AlterContext, apply_ops, replacement_ops
from crabka.errors import OperationError
from crabka.metadata.configs import ConfigResource, ConfigResourceType
from crabka.metadata.features import CORDONED_DIRECTORIES_LEVEL, ELR_VERSION, METADATA_VERSION_NAMES
from crabka.metadata.records import ClearElrRecord, ConfigRecord
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome, ResourceChange
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.config.server import ServerConfig
    from crabka.metadata.image import MetadataImage

MIN_ISR = "min.insync.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"


def alter_configs(
    image: MetadataImage, changes: Sequence[ResourceChange], server: ServerConfig, *, validate_only: bool = False
) -> Outcome[list[ItemVerdict]]:
    """Decide on config changes, resource by resource; the verdicts are in the order of the changes."""
    resources = [change.resource for change in changes]
    records: list[Any] = []
    verdicts: list[ItemVerdict] = []
    for change in changes:
        try:
            if resources.count(change.resource) > 1:
                raise OperationError(ErrorCode.invalid_request, "Error due to duplicate config resources")
            records += _decide(image, change, server)
            verdicts.append(ACCEPTED)
        except OperationError as error:
            verdicts.append(ItemVerdict.of(error))
    return Outcome(verdicts, [] if validate_only else records)


def _decide(image: MetadataImage, change: ResourceChange, server: ServerConfig) -> list[Any]:
    resource_type, name = change.resource
    _require_existing(image, change.resource)
    existing = image.configs.get(resource_type, name)
    ops = change.ops if change.replacement is None else replacement_ops(existing, change.replacement)
    elr_enabled = image.features.levels.get(ELR_VERSION, 0) > 0
    context = AlterContext(resource_name=name, server=server, elr_enabled=elr_enabled)
    altered = apply_ops(resource_type, existing, ops, context)
    if CORDONED_LOG_DIRS in altered:
        _require_cordoning(image)
    records: list[Any] = [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in altered.items()
    ]
    if MIN_ISR in altered and elr_enabled:
        # Eligible leaders were chosen under the old minimum. An empty topic name stands for all topics.
        is_topic = resource_type == ConfigResourceType.TOPIC
        records.append(ClearElrRecord(topic_name=name if is_topic else ""))
    return records


def _require_cordoning(image: MetadataImage) -> None:
    if image.features.metadata_version < CORDONED_DIRECTORIES_LEVEL:
        needed = METADATA_VERSION_NAMES[CORDONED_DIRECTORIES_LEVEL]
        raise OperationError(
            ErrorCode.invalid_config,
            f"The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= {needed}",
        )


def _require_existing(image: MetadataImage, resource: ConfigResource) -> None:
    if (
        resource.resource_type == ConfigResourceType.TOPIC
        and resource.name
        and resource.name not in image.topics.by_name
    ):
        raise OperationError(ErrorCode.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist.")
    is_broker = resource.resource_type == ConfigResourceType.BROKER and resource.name.isdecimal()
    if is_broker and int(resource.name) not in image.cluster.brokers:
        raise OperationError(ErrorCode.broker_id_not_registered, f"No node with id {resource.name} found.")
