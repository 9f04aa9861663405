"""Spark's own servers from the pip package: a standalone cluster and a Connect server, without Crabka on their path.

Their Python has the libraries that tasks import, and nothing of this project: what they run of it was sent to them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark

from tests.support.nodes.process import NodeProcess, accepts_connections, wait_until
from tests.support.wire.ports import free_port

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[3]
_HERE = "127.0.0.1"


def bare_python(directory: Path) -> Path:
    """Make a Python with the libraries of this one but without Crabka; return its program."""
    venv.create(directory, with_pip=False, symlinks=True)
    [packages] = directory.glob("lib/python*/site-packages")
    # A path that a .pth file names is searched, but its own .pth files are not read: they name our sources.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = directory / "bin" / "python"
    asked = subprocess.run(
        [python, "-c", "import pyarrow, numba, obstore, crabka"],
        env=server_environment(directory, python),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'crabka'" in asked.stderr, asked.stderr
    return python


def server_environment(directory: Path, python: Path) -> dict[str, str]:
    """What processes of the servers see."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and "SPARK" not in name}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": _HERE,
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
        "PYSPARK_PYTHON": str(python),
    }


class SparkServer(NodeProcess):
    """One server of Spark, a process group of its own with everything that it starts."""

    start_timeout_s = 120.0

    def __init__(self, directory: Path, python: Path) -> None:
        super().__init__(directory)
        self._python = python
        self.port = free_port()

    def kill_all(self) -> None:
        """Kill the server and what it started, as the end of its machine would."""
        os.killpg(self.pid, signal.SIGKILL)
        self.kill()

    def _prepare(self) -> None:
        pass

    def _is_ready(self) -> bool:
        return accepts_connections(self.port)

    def _spark_class(self, *arguments: str) -> Sequence[str]:
        environment = server_environment(self.directory, self._python)
        settings = [f"{name}={value}" for name, value in environment.items()]
        return ["setsid", "env", "-i", *settings, str(SPARK_HOME / "bin" / "spark-class"), *arguments]


class StandaloneMaster(SparkServer):
    """The master of a cluster."""

    name = "spark-master"

    def __init__(self, directory: Path, python: Path) -> None:
        super().__init__(directory, python)
        self._page_port = free_port()

    @property
    def url(self) -> str:
        """What drivers and workers are given."""
        return f"spark://{_HERE}:{self.port}"

    def state(self) -> Mapping[str, Any]:
        """What the master says of its workers and applications."""
        with urllib.request.urlopen(f"http://{_HERE}:{self._page_port}/json/", timeout=30) as answer:
            found: Mapping[str, Any] = json.load(answer)
        return found

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many workers are there."""
        wait_until(lambda: self.state()["aliveworkers"] == count, f"{count} workers are there", timeout_s=120.0)

    def busy_workers(self) -> int:
        """How many workers run executors."""
        return sum(1 for worker in self.state()["workers"] if worker["state"] == "ALIVE" and worker["coresused"])

    def _command(self) -> Sequence[str]:
        places = ["--host", _HERE, "--port", str(self.port), "--webui-port", str(self._page_port)]
        return self._spark_class("org.apache.spark.deploy.master.Master", *places)

    def _is_ready(self) -> bool:
        return accepts_connections(self.port) and accepts_connections(self._page_port)


class StandaloneWorker(SparkServer):
    """A worker with one core."""

    name = "spark-worker"

    def __init__(self, directory: Path, python: Path, master: StandaloneMaster) -> None:
        super().__init__(directory, python)
        self._master = master
        self._page_port = free_port()

    def _command(self) -> Sequence[str]:
        places = ["--host", _HERE, "--port", str(self.port), "--webui-port", str(self._page_port)]
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / "work")]
        return self._spark_class("org.apache.spark.deploy.worker.Worker", *places, *size, self._master.url)


class ConnectServer(SparkServer):
    """A Connect server with a Spark of two cores."""

    name = "spark-connect"

    @property
    def url(self) -> str:
        """What clients are given."""
        return f"sc://{_HERE}:{self.port}"

    def _command(self) -> Sequence[str]:
        settings = {
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.binding.address": _HERE,
            "spark.ui.enabled": "false",
            "spark.driver.host": _HERE,
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
            "spark.sql.artifact.copyFromLocalToFs.allowDestLocal": "true",
        }
        given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
        return self._spark_class(
            "org.apache.spark.deploy.SparkSubmit",
            *("--master", "local[2]", "--driver-memory", "1g", *given),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
        )


def crabka_command(*arguments: str) -> list[str]:
    """The command line of this tree's own commands."""
    return [sys.executable, "-m", "crabka.cli", *arguments]


def submit_command(master: str, script: Path, *arguments: str) -> list[str]:
    """The command line that submits a script."""
    return [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, str(script), *arguments]


def driver_environment(directory: Path, python: Path) -> dict[str, str]:
    """What a driver sees: the project for itself, and for the workers a Python that lacks it."""
    directory.mkdir(parents=True, exist_ok=True)
    return server_environment(directory, python) | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "CRABKA_CACHE_DIR": str(directory / "plans"),
    }
