"""What consumer groups may do: the node's settings with those of the group over them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
    # The first one is used if no member asks for one.
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_max_size: int = 2**31 - 1
