"""What the tasks of all partitions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from crabka.broker.tiering.metadata.tier_metadata import TierMetadata
    from crabka.broker.tiering.stats import TierStats
    from crabka.config.server import ServerConfig
    from crabka.ports import Runtime
    from crabka.remote.storage_manager import RemoteStorageManager


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTools:
    """The tier, its metadata, and services of the broker."""

    broker_id: int
    runtime: Runtime
    config: Callable[[], ServerConfig]
    storage: RemoteStorageManager
    metadata: TierMetadata
    stats: TierStats
    # Makes sealed segments durable.
    flush_logs: Callable[[], Awaitable[object]]
    # Makes the log starts of log dirs durable.
    save_log_starts: Callable[[Iterable[str]], Awaitable[None]]
