"""A hung test fails by itself, wherever it hangs, and the tests after it run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLUGIN = """
from tests.support.time_limit import HardLimit

def pytest_configure(config):
    config.pluginmanager.register(HardLimit(grace_s=1))
"""

HUNG_TESTS = """
import asyncio, time
import pytest, uvloop

def test_async():
    uvloop.run(asyncio.Event().wait())  # the loop keeps the exception of a signal handler to itself

def test_caught():
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass

def test_blocked():
    time.sleep(1000)

@pytest.fixture
def hung():
    yield
    time.sleep(1000)

def test_failed(hung):
    assert not "the failure ends the timer, not the fixture"

@pytest.mark.timeout(200)
def test_last():
    pass
"""


def test_every_hung_test_fails_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "test_hung.py").write_text(HUNG_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 1\ntimeout_method = signal\n")
    plugins = ["-p", "xdist", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "-n", "2", "-rfp", "--tb=no"]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    ended = {line.split()[1].rpartition("::")[2] for line in done.stdout.splitlines() if line.startswith("FAILED ")}
    assert ended == {"test_async", "test_caught", "test_blocked", "test_failed"}, done.stdout + done.stderr
    assert "PASSED test_hung.py::test_last" in done.stdout


def test_every_test_of_this_run_has_both_limits(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("crabka-hard-limit")
    assert float(request.config.getini("timeout")) > 0
    # A thread would end the whole worker for every test whose time is up.
    assert request.config.getini("timeout_method") == "signal"
