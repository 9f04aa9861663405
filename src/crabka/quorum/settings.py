"""How the metadata log of a node is kept, and the times of its quorum, out of the node's config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.kraft.settings import KraftSettings

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
        """Take the settings out of a node's config."""
        return cls(
            segment_bytes=config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
            max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
            max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            max_idle_interval_ms=config.metadata_max_idle_interval_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )


def kraft_settings(config: ServerConfig) -> KraftSettings:
    """Take the `controller.quorum.*` times and sizes out of a node's config."""
    return KraftSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
    )
