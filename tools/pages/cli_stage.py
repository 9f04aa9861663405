"""A node with the same content each time, and what commands print on a terminal of 80 columns beside it.

Ids, times, ports and sizes on the disk differ from run to run. They are replaced before a table is laid out, by values
of the same kind, so that the page changes only when a command does.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

if TYPE_CHECKING:
    from crabka.cli.output import Column

ID: Final = "4L6g3nShT-eMCtK--X86sw"
TIME: Final = "2026-01-01T00:00:00.000Z"
_TIME_MS: Final = "1767225600000"
_COLUMNS: Final = 80
# Cells that are replaced in every command, by the name of their column.
_STEADY: Final[Mapping[str, str]] = {
    "id": ID,
    "cluster": ID,
    "directory": ID,
    "age_ms": "12s",
    "last_fetch": "12ms ago",
    "last_caught_up": "12ms ago",
    "free_bytes": "93.1 GiB",
    "total_bytes": "100.0 GiB",
}
_SETTINGS: Final = {
    "remote.log.manager.task.interval.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 100_000,
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:(\d+)")
_MOMENT_MS: Final = re.compile(r"\b1[6-9]\d{11}\b")


class Terminal(io.TextIOWrapper):
    """What a command writes, as a terminal would show it."""

    def isatty(self) -> bool:
        """Return True: commands print tables."""
        return True


class Stage:
    """Runs commands beside a node, and returns what a person would see."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory
        self._port = bootstrap.rpartition(":")[2]

    def show(self, command: str, steady: Mapping[str, str]) -> str:
        """Return the output of a command; `steady` replaces cells by their column."""
        from crabka.cli import output
        from crabka.cli.main import execute

        readable = output.readable

        def replaced(column: Column, value: object) -> str:
            known = {**_STEADY, **steady}
            shown = readable(column, value)
            return self._steady(known[column.name] if column.name in known and value is not None else shown)

        terminal = Terminal(io.BytesIO(), encoding="utf-8", write_through=True)
        with (
            mock.patch.object(output, "readable", replaced),
            mock.patch.object(sys, "stdout", terminal),
            mock.patch.object(sys, "stderr", terminal),
        ):
            execute(self._words(command))
        terminal.seek(0)
        return "\n".join(line.rstrip() for line in self._steady(terminal.read()).splitlines()).rstrip()

    def run(self, command: str) -> None:
        """Run a command that prepares the next one. Raises RuntimeError if it fails."""
        from crabka.cli.main import execute

        terminal = Terminal(io.BytesIO(), encoding="utf-8", write_through=True)
        with mock.patch.object(sys, "stdout", terminal), mock.patch.object(sys, "stderr", terminal):
            code = execute(self._words(command))
        if code:
            terminal.seek(0)
            raise RuntimeError(f"{command}: exit code {code}: {terminal.read()}")

    def _words(self, command: str) -> Sequence[str]:
        return command.replace("./", f"{self.directory}/").split()

    def _steady(self, text: str) -> str:
        text = text.replace(f"{self.directory}/", "./")
        text = _ADDRESS.sub(lambda match: f"127.0.0.1:{self._name_of(match[1])}", text)
        return _MOMENT_MS.sub(_TIME_MS, text)

    def _name_of(self, port: str) -> str:
        if port == self._port:
            return "9092"
        # Ports of the cluster that is described below are fixed; another one is that of the controller.
        return port if int(port) < 30_000 else "9093"


@contextmanager
def stage() -> Iterator[Stage]:
    """Yield a stage with topics, a group, a tier, a table and a cluster that is stopped."""
    from crabka.embedded import Broker

    with tempfile.TemporaryDirectory(prefix="crabka-docs-") as place:
        directory = Path(place)
        settings: dict[str, Any] = _SETTINGS
        with Broker(settings, data_dir=directory / "crabka-data", tier=directory / "crabka-tier") as broker:
            terminal = {"CRABKA_BOOTSTRAP": broker.bootstrap_servers, "COLUMNS": str(_COLUMNS), "NO_COLOR": "1"}
            others = {name: value for name, value in os.environ.items() if not name.startswith("CRABKA_")}
            with mock.patch.dict(os.environ, {**others, **terminal}, clear=True):
                found = Stage(directory, broker.bootstrap_servers)
                _prepare(found, broker.wait_until)
                yield found


def _prepare(found: Stage, wait_until: Callable[..., Any]) -> None:
    found.run("topics create orders --partitions 3 --config retention.ms=7d")
    found.run("topics create clicks --config remote.storage.enable=true --config segment.bytes=1MiB")
    for partition in range(3):
        found.run(f"records produce orders:{partition} {'order ' * (partition + 2)}--key customer-{partition}")
    found.run("groups reset billing --topic orders --to-offset 2 --execute")
    for _ in range(5):
        found.run(f"records produce clicks:0 {'x' * 500_000}")
    (found.directory / "alice.txt").write_text("a password\n")
    found.run("users add alice --password-file ./alice.txt")
    found.run("quotas set producer_byte_rate=10MB consumer_byte_rate=20MiB --user alice")
    found.run("quotas set request_percentage=50 --user-default --client-id reports")
    found.run("acls add --allow User:alice --producer --topic orders")
    found.run("acls add --deny User:eve --operation All --topic pay --prefix")
    wait_until(lambda: _tiered(found) == 3, message="two segments are in the tier")
    _make_table(found.directory)
    _make_cluster(found.directory)


def _tiered(found: Stage) -> int | None:
    """Return the last offset of the tier."""
    offset: int | None = json.loads(found.show("offsets get clicks --at latest-tiered --json", {}))[0]["offset"]
    return offset


def _make_table(directory: Path) -> None:
    """Sync a table without Spark."""
    from crabka.spark.lake.syncing.settings import SyncSettings
    from crabka.spark.lake.syncing.topic_sync import TopicSync
    from tests.support.spark.lake_tables import lake_of
    from tests.support.spark.lake_topic import InlineRunner, ListTopic

    lake = lake_of(directory, "parquet")
    TopicSync(lake, ListTopic([[b"v"] * 3]), InlineRunner(), SyncSettings(), topic="orders").run_round()


def _make_cluster(directory: Path) -> None:
    from crabka.cli.cluster.local_layout import open_homes

    open_homes(str(directory / "crabka-cluster"), 3, 20_001, storage=None)
