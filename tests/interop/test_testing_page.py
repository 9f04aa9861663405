"""The examples of docs/testing.md run as they stand, pass a strict type check, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.page_examples import example_files, write_examples
from tests.support.traces import REPORTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
# The page sets a scope, which is tried once; with workers the defaults are.
SETTINGS = "pyproject.toml"

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("workers", [0, 2])
def test_examples_run_and_leave_nothing(tmp_path: Path, workers: int) -> None:
    examples, temporary, reports = (tmp_path / name for name in ("examples", "temporary", "reports"))
    for directory in (examples, temporary, reports):
        directory.mkdir()
    write_examples(PAGE, examples)
    arguments = ["-n", str(workers)] if workers else []
    if workers:
        (examples / SETTINGS).unlink()
    code, output = run_pytest(examples, arguments, {"TMPDIR": str(temporary), REPORTS: str(reports)})
    assert code == 0, output
    assert len(list(reports.iterdir())) == 1 + workers
    assert [path.read_text() for path in reports.iterdir()] == [""] * (1 + workers)
    # xdist keeps its own there, of the last three runs.
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("pytest-of-")] == []


def test_examples_use_every_client_and_fixture() -> None:
    text = "".join(example_files(PAGE).values())
    for name in ("confluent_kafka", "aiokafka", "kafka", "crabka_broker", "crabka_cluster", "crabka_topic_factory"):
        assert name in text
    assert 'crabka_broker_scope = "module"' in example_files(PAGE)[SETTINGS]


def test_examples_pass_a_strict_type_check(tmp_path: Path) -> None:
    paths = [str(path) for path in write_examples(PAGE, tmp_path) if path.suffix == ".py"]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", *paths]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def run_pytest(directory: Path, arguments: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run pytest as a stranger does; its processes must have ended with it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.traces", *arguments]
    # kafka-python forgets sockets. Where the collector finds them while hypothesis is imported, at the end of the
    # run, CPython before 3.11.8 may take that for an error of its parser.
    command += ["-p", "no:hypothesispytest", "-W", "ignore::DeprecationWarning:kafka"]
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=250)
    finally:
        left = [each for each in psutil.pids() if each != process.pid and _session_of(each) == process.pid]
        for each in [process.pid, *left] if process.poll() is None else left:
            os.kill(each, signal.SIGKILL)
    assert left == []
    return process.returncode, output


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
