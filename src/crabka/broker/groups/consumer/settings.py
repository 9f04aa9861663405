"""Settings of consumer groups: those of the node, overridden by those of the group (`--entity-type groups`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from crabka.config.java_classes import assignor_name
from crabka.metadata.configs import ConfigResourceType

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.metadata.image import MetadataImage


class MigrationPolicy(Enum):
    """Which way a group with members may move between the protocols (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Return whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Return whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of one consumer group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    # The least time between two target assignments.
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    # The first one is used if no member names one.
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_max_size: int = 2**31 - 1


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
