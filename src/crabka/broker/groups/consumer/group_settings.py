"""Settings of one consumer group: those of the node, with the group's own over them (`--entity-type groups`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.settings import ConsumerSettings, MigrationPolicy
from crabka.config.java_classes import assignor_name
from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.metadata.image import MetadataImage


def consumer_settings(config: ServerConfig, image: MetadataImage | None, group_id: str) -> ConsumerSettings:
    """Return the settings of a group."""
    own = image.configs.get(ConfigResourceType.GROUP, group_id) if image is not None else {}
    return ConsumerSettings(
        session_timeout_ms=int(own.get("consumer.session.timeout.ms", config.group_consumer_session_timeout_ms)),
        heartbeat_interval_ms=int(
            own.get("consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval_ms)
        ),
        assignment_interval_ms=int(
            own.get("consumer.assignment.interval.ms", config.group_consumer_assignment_interval_ms)
        ),
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        max_size=config.group_consumer_max_size,
        assignors=tuple(assignor_name(each) for each in config.group_consumer_assignors),
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        classic_max_size=config.group_max_size,
    )
