"""Settings of the metadata log, from the node's config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogSettings:
    """Kafka's settings of the metadata log, with its defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    max_record_bytes_between_snapshots: int = 20 << 20
    # 0 turns snapshots by time off.
    max_snapshot_interval_ms: int = 3_600_000
    # 0 turns idle records off.
    max_idle_interval_ms: int = 500
    # -1 keeps everything.
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000

    @classmethod
    def from_config(cls, config: ServerConfig) -> MetadataLogSettings:
        """Return the settings in a node's config."""
        return cls(
            segment_bytes=config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
            max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
            max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            max_idle_interval_ms=config.metadata_max_idle_interval_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )
