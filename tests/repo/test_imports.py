"""The import contracts of pyproject.toml hold, and a planted forbidden import breaks the contract that it should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    *("cli", "clients", "config", "controller", "embedded", "kraft", "log", "metadata", "net"),
    *("node", "protocol", "quorum", "records", "runtime", "serving", "spark", "testing", "vfs"),
    *("cli/doctor", "cli/doctor/checks", "cli/doctor/gathering"),
    *("controller/decisions", "formats", "remote", "remote_topic", "security"),
]
PACKAGES += [
    f"spark/{name}" for name in ("access", "decode", "jobs", "lake", "options", "plan", "read", "session", "source")
]
# Nothing lies loose in the broker: each of its packages has a place in the contract.
PACKAGES += [f"broker/{name}" for name in ("handlers", "healing", "lifecycle", "logdirs", "partition", "tiering")]
PACKAGES += [f"spark/lake/{name}" for name in ("formats", "maintenance", "syncing", "values")]
MODULES = ["_kio", "errors", "ids", "ports"]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    return subprocess.run(
        [*command, "--no-cache"], cwd=root, env=environment, check=False, capture_output=True, text=True
    )


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """A tree with the packages of Crabka, empty, under the real contracts."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    source = tmp_path / "src" / "crabka"
    for package in PACKAGES:
        (source / package).mkdir(parents=True)
        (source / package / "__init__.py").touch()
        (source / package / "part.py").touch()
    (source / "__init__.py").touch()
    (source / "broker/__init__.py").touch()
    for module in MODULES:
        (source / f"{module}.py").touch()
    return tmp_path


def test_the_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_contracts_hold_on_the_empty_skeleton(skeleton: Path) -> None:
    result = lint_imports(skeleton)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("records/part.py", "import asyncio", "Pure packages"),
        ("protocol/part.py", "from os import path", "Pure packages"),
        ("controller/decisions/part.py", "import time", "Pure packages"),
        ("kraft/part.py", "import random", "Pure packages"),
        ("security/part.py", "import ssl", "Pure packages"),
        ("kraft/part.py", "import crabka.metadata.part", "Imports point down only"),
        ("metadata/part.py", "import crabka.vfs.part", "Pure packages"),
        ("records/part.py", "import crabka.log.part", "Imports point down only"),
        ("clients/part.py", "import crabka.quorum.part", "Imports point down only"),
        ("controller/decisions/part.py", "import crabka.serving.part", "Decisions of the controller"),
        ("serving/part.py", "import crabka.controller.part", "Imports point down only"),
        ("controller/part.py", "import crabka.broker.handlers.part", "Imports point down only"),
        ("broker/handlers/part.py", "import crabka.controller.part", "Imports point down only"),
        ("log/part.py", "import crabka._kio", "Error codes come from crabka.protocol"),
        ("cli/part.py", "import crabka.testing.part", "Imports point down only"),
        ("cli/doctor/checks/part.py", "import crabka.cli.doctor.gathering.part", "Checks of the doctor"),
        ("cli/doctor/checks/part.py", "import socket", "Checks of the doctor"),
        ("broker/handlers/part.py", "import time", "Node code reaches the machine only through ports"),
        ("log/part.py", "def f():\n    import os", "Node code reaches the machine only through ports"),
        ("embedded/part.py", "import confluent_kafka", "No Kafka client library"),
        ("broker/partition/part.py", "import crabka.broker.handlers.part", "Imports in broker code point down only"),
        ("broker/tiering/part.py", "import crabka.broker.partition.part", "Imports in broker code point down only"),
        ("broker/logdirs/part.py", "import crabka.broker.healing.part", "Imports in broker code point down only"),
        ("broker/handlers/part.py", "import crabka.broker.lifecycle.part", "Imports in broker code point down only"),
        ("broker/part.py", "", "Imports in broker code point down only"),
        ("spark/part.py", "import crabka.cli.part", "Imports point down only"),
        ("node/part.py", "import crabka.spark.part", "Imports point down only"),
        ("spark/part.py", "import crabka.broker.handlers.part", "Spark jobs know the tier and the clients"),
        ("spark/part.py", "def f():\n    import crabka.log.part", "Spark jobs know the tier and the clients"),
        ("spark/plan/part.py", "import crabka.spark.source.part", "Imports in Spark code point down only"),
        (
            "spark/options/part.py",
            "def f():\n    import crabka.spark.decode.part",
            "Imports in Spark code point down only",
        ),
        ("spark/session/part.py", "import crabka.spark.access.part", "Imports in Spark code point down only"),
        ("spark/lake/values/part.py", "import crabka.spark.lake.formats.part", "Imports in lake code point down only"),
        ("cli/part.py", "def f():\n    import pyarrow", "Only crabka.spark needs the libraries"),
    ],
)
def test_a_planted_forbidden_import_is_caught(module: str, line: str, contract: str, skeleton: Path) -> None:
    # What the file-system port does for the node is out of reach of pure packages, even through a friend.
    (skeleton / "src/crabka/vfs/part.py").write_text("import os\n")
    (skeleton / "src/crabka" / module).write_text(f"{line}\n")
    result = lint_imports(skeleton)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [text for text in result.stdout.splitlines() if text.rstrip().endswith("BROKEN")]
    assert any(text.startswith(contract) for text in broken), result.stdout
