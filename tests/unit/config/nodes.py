"""Properties of a small node, for tests of settings."""

from __future__ import annotations

from crabka.config.server import ServerConfig

MINIMAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "data",
}


def server(**changes: str) -> ServerConfig:
    """Return the settings of a small node; keyword arguments are keys with underscores for dots."""
    return ServerConfig.from_properties({**MINIMAL, **dotted(changes)})[0]


def dotted(changes: dict[str, str]) -> dict[str, str]:
    """Return keys with dots for underscores."""
    return {name.replace("_", "."): text for name, text in changes.items()}
