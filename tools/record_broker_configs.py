"""Write `tests/golden/broker_config_layers.json`: what Apache Kafka 4.3.0 answers to DescribeConfigs of its broker.

    .venv/bin/python -m tools.record_broker_configs

Each case starts a node of Kafka with other properties and dynamic settings, and asks for all settings of the broker and
for those of the cluster. The first case is stored whole, the others by what they have otherwise. Ports and directories
are replaced by fixed words, so that the file is the same at every run.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOwner, ConfigValue, ResourceType
from crabka.clients.cluster.cluster import Cluster
from crabka.runtime import real_runtime, run
from tests.support.kafka.oracle import CLUSTER_ID, JvmKafka, run_tool

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "broker_config_layers.json"
DIRECTORY, PORT, CONTROLLER_PORT = "/recorded", "19092", "19093"
BROKER_ID = 1
Row = list[Any]
# The first metadata transaction of a cluster with eligible leader replicas sets this one for all brokers.
FIRST_DEFAULT = {"min.insync.replicas": "1"}
# Kafka answers before a dynamic setting is in force, with its layers already listed.
PATIENCE_S = 30.0
DYNAMIC_SOURCES = (2, 3)
DEFAULT_SOURCE = 5
# Written out, Kafka does not add the protocol of the controllers' listener to it.
LEFT_OUT = ("listener.security.protocol.map",)
PARTS = ("broker", "cluster_default")


@dataclass(frozen=True, slots=True)
class Case:
    """Properties over those of a node with as few as Kafka takes (None: left out), and dynamic settings."""

    properties: Mapping[str, str | None] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "few properties": Case(),
    "other names of one setting": Case(
        {
            "node.id": None,
            "broker.id": str(BROKER_ID),
            "log.dirs": None,
            "log.dir": f"{DIRECTORY}/node/data",
            "log.retention.minutes": "600",
            "log.retention.hours": "20",
            "log.roll.hours": "30",
            "log.roll.jitter.hours": "1",
        }
    ),
    "listeners, secrets and unknown names": Case(
        {
            "advertised.listeners": f"PLAINTEXT://localhost:{PORT}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.plaintext.max.connections": "900",
            "listener.name.plaintext.ssl.key.password": "secret",
            "ssl.key.password": "secret",
            "my.plugin.address": "anywhere",
            "my.plugin.password": "secret",
            "broker.rack": "a",
            "super.users": "User:admin",
        }
    ),
    "dynamic settings": Case(
        {"log.cleaner.threads": "2", "log.retention.ms": "7000000", "message.max.bytes": "2000000"},
        dynamic_broker={
            "log.cleaner.threads": "3",
            "leader.replication.throttled.rate": "1000",
            "background.threads": "9",
            "log.segment.bytes": "2000000",
            "listener.name.plaintext.max.connections": "500",
        },
        dynamic_default={
            "log.cleaner.threads": "4",
            "log.retention.ms": "8000000",
            "num.io.threads": "7",
            "unclean.leader.election.enable": "true",
        },
    ),
}


class _Node(JvmKafka):
    """A node with exactly the properties of a case."""

    def __init__(self, directory: Path, case: Case) -> None:
        super().__init__(directory)
        self._case = case
        self._words = {
            DIRECTORY: str(directory.parent),
            PORT: str(self.port),
            CONTROLLER_PORT: str(self._controller_port),
        }

    def _properties(self) -> dict[str, str]:
        texts = "\n".join(f"{name}={value}" for name, value in properties_of(self._case).items())
        for word, real in self._words.items():
            texts = texts.replace(word, real)
        return dict(line.split("=", 1) for line in texts.splitlines())

    def format(self) -> None:
        self._write_properties()
        arguments = ["format", "--config", str(self.properties_path), "--cluster-id", CLUSTER_ID, "--standalone"]
        run_tool("kafka.tools.StorageTool", *arguments)

    def fixed(self, text: str | None) -> str | None:
        """Return a text with the fixed words in the place of ports and directories."""
        for word, real in self._words.items():
            text = None if text is None else text.replace(real, word)
        return text


def properties_of(case: Case) -> dict[str, str]:
    """Return the properties of a case, with fixed ports and directories."""
    few = {
        "process.roles": "broker,controller",
        "node.id": str(BROKER_ID),
        "listeners": f"PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:{CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{CONTROLLER_PORT}",
        "log.dirs": f"{DIRECTORY}/node/data",
    }
    merged = few | dict(case.properties)
    return {name: value for name, value in merged.items() if value is not None}


async def _ask(bootstrap: str, case: Case) -> tuple[dict[str, ConfigValue], dict[str, ConfigValue]]:
    runtime = real_runtime()
    broker, default = ConfigOwner(ResourceType.BROKER, str(BROKER_ID)), ConfigOwner(ResourceType.BROKER, "")
    try:
        async with Cluster(runtime, bootstrap) as cluster:
            admin = Admin(cluster)
            for owner, settings in ((broker, case.dynamic_broker), (default, case.dynamic_default)):
                if settings:
                    await admin.alter_configs(owner, [ConfigChange(name, text) for name, text in settings.items()])
            deadline = time.monotonic() + PATIENCE_S
            while not _is_in_force(found := await admin.describe_configs(broker)):
                if time.monotonic() > deadline:
                    raise TimeoutError("dynamic settings are not in force")
                await asyncio.sleep(0.2)
            return found, await admin.describe_configs(default)
    finally:
        runtime.threads.close()


def _is_in_force(settings: Mapping[str, ConfigValue]) -> bool:
    dynamic = (each for each in settings.values() if each.source in DYNAMIC_SOURCES and not each.is_sensitive)
    return all(each.value == each.synonyms[0][1] for each in dynamic)


def _row(node: _Node, entry: ConfigValue) -> Row:
    """Value, source, type, read-only, sensitive, synonyms (name, value, source), with the numbers of the protocol."""
    synonyms = [[name, node.fixed(value), source] for name, value, source in entry.synonyms]
    return [node.fixed(entry.value), entry.source, entry.type, entry.is_read_only, entry.is_sensitive, synonyms]


def record(case: Case) -> dict[str, Any]:
    """Return what a node of Kafka answers in a case."""
    with tempfile.TemporaryDirectory(prefix="crabka-record-") as directory:
        node = _Node(Path(directory) / "node", case)
        try:
            broker, default = run(_ask(node.start().bootstrap_servers, case))
        finally:
            node.kill()
        return {
            "properties": properties_of(case),
            "dynamic_broker": dict(case.dynamic_broker),
            "dynamic_default": FIRST_DEFAULT | dict(case.dynamic_default),
            "broker": {name: _row(node, entry) for name, entry in sorted(broker.items())},
            "cluster_default": {name: _row(node, entry) for name, entry in sorted(default.items())},
        }


def main() -> int:
    """Record all cases and write the file."""
    found = {name: record(case) for name, case in CASES.items()}
    whole = next(iter(found.values()))["broker"]
    found["all defaults written out"] = record(Case(_defaults_of(whole)))
    for name, answers in list(found.items())[1:]:
        rows = answers["broker"]
        found[name]["missing"] = sorted(set(whole) - set(rows))
        answers["broker"] = {key: row for key, row in rows.items() if whole.get(key) != row}
    TARGET.write_text(_lines(found))
    print(f"wrote {TARGET}")
    return 0


def _defaults_of(rows: Mapping[str, Row]) -> dict[str, str | None]:
    """Return the settings that have a default, as properties."""
    return {
        name: value
        for name, (value, source, *_rest) in rows.items()
        if source == DEFAULT_SOURCE and value and name not in LEFT_OUT
    }


def _lines(found: Mapping[str, Any]) -> str:
    """One setting per line: JSON that can be compared by eye."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    for row in (
        row for case in found.values() for part in ("broker", "cluster_default") for row in case[part].values()
    ):
        text = text.replace(_indented(row), json.dumps(row, ensure_ascii=False))
    return text + "\n"


def _indented(row: Row) -> str:
    first, *rest = json.dumps(row, indent=1, ensure_ascii=False).splitlines()
    return "\n".join([first, *("   " + line for line in rest)])


if __name__ == "__main__":
    sys.exit(main())
