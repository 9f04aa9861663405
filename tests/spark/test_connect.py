"""Jobs through Spark Connect, on a server that has nothing of Crabka but what the client sends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark.lake_reader import table_places
from tests.support.spark.servers import ConnectServer, bare_python, crabka_command, driver_environment
from tests.support.spark.topics import Place, create_tiered_topic, fill, tiered_broker, wait_for_tier

# Several processes with a Java each start first, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(900)
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with tiered_broker(tmp_path_factory.mktemp("connect-topics")) as running:
        create_tiered_topic(running, "mixed")
        fill(running, "mixed", 1)
        wait_for_tier(running, "mixed")
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ConnectServer, dict[str, str]]]:
    directory = tmp_path_factory.mktemp("connect")
    python = bare_python(directory / "python")
    with ConnectServer(directory / "server", python) as running:
        # The client starts no Java.
        environment = driver_environment(directory / "client", python) | {"JAVA_HOME": str(directory / "none")}
        yield running, environment


def run(server: tuple[ConnectServer, dict[str, str]], *arguments: str) -> Any:
    """Run a command through the server; return what it printed as JSON."""
    connect, environment = server
    done = subprocess.run(
        crabka_command(*arguments, "--master", connect.url, "--json"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-4000:] + connect.last_output()
    return json.loads(done.stdout)


def test_a_sync_goes_through_connect(
    server: tuple[ConnectServer, dict[str, str]], place: Place, tmp_path: Path
) -> None:
    [summary] = run(server, "lake", "sync", "mixed", "--to", str(tmp_path), "--bootstrap", place.bootstrap)
    assert summary["rows"] == len(set(table_places(tmp_path, "mixed", "delta"))) > 0


EXPLAIN = """
import sys

from pyspark.sql import SparkSession

from crabka.spark import explain

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = spark.read.format("crabka").option("tier.uri", sys.argv[2]).option("tier.metadata", "listing")
frame = frame.option("subscribe", "mixed").option("where", "partition = 0")
explain(frame.load().where("offset > 5").select("offset"))
spark.stop()
"""


def test_a_frame_of_connect_is_explained_from_its_options(
    server: tuple[ConnectServer, dict[str, str]], place: Place
) -> None:
    connect, environment = server
    command = [sys.executable, "-c", EXPLAIN, connect.url, f"file://{place.tier}"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert found.returncode == 0, found.stderr[-4000:]
    lines = dict(line.split(maxsplit=1) for line in found.stdout.splitlines())
    assert int(lines["tier"].split()[0]) > 0
    assert int(lines["pruned"].split()[0]) > 0


@pytest.mark.soak
def test_an_audit_goes_through_connect(server: tuple[ConnectServer, dict[str, str]], place: Place) -> None:
    assert not run(server, "audit", "--tier", f"file://{place.tier}", "--bootstrap", place.bootstrap)["faults"]


@pytest.mark.soak
def test_statistics_go_through_connect(server: tuple[ConnectServer, dict[str, str]], place: Place) -> None:
    days = run(server, "stats", "mixed", "--bootstrap", place.bootstrap)
    assert sum(day["records"] for day in days) > 0
