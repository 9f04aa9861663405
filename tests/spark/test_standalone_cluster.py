"""Jobs on a real standalone cluster, whose workers have nothing of Crabka but what the driver sends them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from crabka.clients import NewTopic, SyncAdmin
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled
from tests.support.spark.lake_reader import table_places
from tests.support.spark.servers import (
    StandaloneMaster,
    StandaloneWorker,
    bare_python,
    crabka_command,
    driver_environment,
    submit_command,
)
from tests.support.spark.topics import Place, tiered_broker, wait_for_tier

# Several processes with a Java each start first, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(900)
TIERED = {"remote.storage.enable": "true", "segment.bytes": str(1 << 20), "local.retention.ms": "1"}
PATIENCE_S = 300.0
PARTITIONS = 2
RECORDS = scaled(4_000, 60_000)


@dataclass
class SparkPlace:
    """A cluster with two workers, and a topic whose tier is a directory."""

    master: StandaloneMaster
    workers: list[StandaloneWorker]
    environment: dict[str, str]
    place: Place

    def run(self, *arguments: str) -> Any:
        """Run a command on the cluster; return what it printed as JSON."""
        done = subprocess.run(
            crabka_command(*arguments, "--master", self.master.url, "--json"),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPlace]:
    directory = tmp_path_factory.mktemp("standalone")
    python = bare_python(directory / "python")
    with tiered_broker(directory / "broker") as place, StandaloneMaster(directory / "master", python) as master:
        workers = [StandaloneWorker(directory / f"worker-{number}", python, master) for number in (1, 2)]
        try:
            for worker in workers:
                worker.launch()
            fill(place)
            master.wait_for_workers(len(workers))
            yield SparkPlace(master, workers, driver_environment(directory / "driver", python), place)
        finally:
            for worker in workers:
                if worker.is_alive():
                    worker.stop()


def fill(place: Place) -> None:
    """Write a few megabytes, most of which are in the tier only."""
    with SyncAdmin(place.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", PARTITIONS, 1, TIERED)])
    producer = Producer({"bootstrap.servers": place.bootstrap, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce("orders", key=b"%d" % number, value=b"%08d" % number * 128, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(120)
    wait_for_tier(place, "orders", PARTITIONS)


JOBS = """
import sys
from pathlib import Path
from crabka.cli.main import execute
from crabka.spark.session.job_session import job_session

bootstrap, tier, lake, report = sys.argv[1:]
with job_session("jobs"):
    code = execute(["audit", "--tier", tier, "--bootstrap", bootstrap])
    Path(report).write_text(str(code))
    code = execute(["lake", "sync", "orders", "--to", lake, "--bootstrap", bootstrap, "--round-size", "1", "--json"])
sys.exit(code)
"""


def test_submitted_jobs_survive_the_death_of_a_worker(cluster: SparkPlace, tmp_path: Path) -> None:
    script, lake, report = tmp_path / "jobs.py", tmp_path / "lake", tmp_path / "audit"
    script.write_text(JOBS)
    addresses = (cluster.place.bootstrap, f"file://{cluster.place.tier}", str(lake), str(report))
    command = submit_command(cluster.master.url, script, *addresses)
    errors = tmp_path / "err"
    with errors.open("w") as file:
        driver = subprocess.Popen(
            command, env=cluster.environment, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
        )
    try:
        log = lake / "orders" / "_delta_log"
        wait_until(lambda: driver.poll() is not None or any(log.glob("*1.json")), "a commit", timeout_s=PATIENCE_S)
        assert driver.poll() is None, errors.read_text()[-4000:]
        busy = cluster.master.busy_workers()
        cluster.workers[0].kill_all()
        out, _ = driver.communicate(timeout=PATIENCE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
    assert driver.returncode == 0, errors.read_text()[-4000:]
    assert busy == len(cluster.workers)
    assert report.read_text() == "0"
    [summary] = json.loads(out[out.index("[") :])
    assert summary["rows"] == RECORDS
    assert summary["rounds"] > 2
    assert table_places(lake, "orders", "delta") == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS // PARTITIONS)
    ]


@pytest.mark.soak
def test_commands_run_on_what_is_left_of_the_cluster(cluster: SparkPlace, tmp_path: Path) -> None:
    bootstrap = ["--bootstrap", cluster.place.bootstrap]
    [summary] = cluster.run("lake", "sync", "orders", "--to", str(tmp_path), *bootstrap)
    assert summary["rows"] == RECORDS
    result = cluster.run("audit", "--tier", f"file://{cluster.place.tier}", *bootstrap)
    assert not result["faults"]
    days = cluster.run("stats", "orders", *bootstrap)
    assert 0 < sum(day["records"] for day in days) <= RECORDS
