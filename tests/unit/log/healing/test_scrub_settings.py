from __future__ import annotations

from crabka.config.server import ServerConfig
from crabka.log.healing.scrub_settings import ScrubSettings

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "/data",
}


def test_the_settings_come_from_the_config_and_have_its_defaults() -> None:
    config, _ = ServerConfig.from_properties(PROPERTIES)
    assert ScrubSettings.from_config(config) == ScrubSettings()
    more = {"crabka.log.scrub.enable": "false", "crabka.log.scrub.interval.ms": "5", "crabka.log.scrub.now": "x"}
    config, _ = ServerConfig.from_properties(PROPERTIES | more)
    assert ScrubSettings.from_config(config) == ScrubSettings(is_enabled=False, interval_ms=5, trigger="x")
