"""Failpoints that end a process, and only where they may."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from crabka.errors import ConfigError
from crabka.ports import NoFailpoints
from crabka.runtime.failpoints import KillingFailpoint, failpoints_from_environment

PROGRAM = """
from crabka.runtime.failpoints import failpoints_from_environment
failpoints = failpoints_from_environment()
for name in ("copy.begin", "other", "copy.begin"):
    failpoints.hit(name)
    print(name, flush=True)
"""


def run(**environment: str) -> tuple[int, list[str]]:
    import os

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.split()


def test_the_process_is_killed_at_the_named_place() -> None:
    assert run(CRABKA_FAILPOINT="other", CRABKA_ALLOW_FAILPOINTS="1") == (-signal.SIGKILL, ["copy.begin"])


def test_a_count_says_at_which_visit() -> None:
    code, reached = run(CRABKA_FAILPOINT="copy.begin:2", CRABKA_ALLOW_FAILPOINTS="1")
    assert (code, reached) == (-signal.SIGKILL, ["copy.begin", "other"])


def test_a_name_alone_kills_no_process() -> None:
    assert run(CRABKA_FAILPOINT="other") == (0, ["copy.begin", "other", "copy.begin"])


def test_without_a_name_there_is_nothing() -> None:
    assert isinstance(failpoints_from_environment({"CRABKA_ALLOW_FAILPOINTS": "1"}), NoFailpoints)
    assert isinstance(failpoints_from_environment({}), NoFailpoints)
    NoFailpoints().hit("anything")


@pytest.mark.parametrize("count", ["0", "x", "-1"])
def test_a_count_that_is_none_is_refused(count: str) -> None:
    with pytest.raises(ConfigError, match="is no count"):
        failpoints_from_environment({"CRABKA_FAILPOINT": f"a:{count}", "CRABKA_ALLOW_FAILPOINTS": "1"})


def test_other_places_do_not_count() -> None:
    failpoint = KillingFailpoint("here", 1)
    failpoint.hit("there")
