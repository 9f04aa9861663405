from __future__ import annotations

from crabka.config.server import ServerConfig
from crabka.quorum.settings import MetadataLogSettings

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "/data",
}


def test_without_settings_kafkas_defaults_hold() -> None:
    config, _ = ServerConfig.from_properties(PROPERTIES)
    assert MetadataLogSettings.from_config(config) == MetadataLogSettings()


def test_settings_come_from_kafkas_keys() -> None:
    config, _ = ServerConfig.from_properties(
        {
            **PROPERTIES,
            "internal.metadata.log.segment.bytes": "2000",
            "metadata.log.max.record.bytes.between.snapshots": "3000",
            "metadata.log.max.snapshot.interval.ms": "0",
            "metadata.max.idle.interval.ms": "700",
            "metadata.max.retention.bytes": "9000",
            "metadata.max.retention.ms": "8000",
        }
    )
    assert MetadataLogSettings.from_config(config) == MetadataLogSettings(
        segment_bytes=2000,
        max_record_bytes_between_snapshots=3000,
        max_snapshot_interval_ms=0,
        max_idle_interval_ms=700,
        retention_bytes=9000,
        retention_ms=8000,
    )
