"""Shells complete commands, options and choices with the scripts that `crabka completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import RunCommand


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a `crabka`."""
    directory = tmp_path_factory.mktemp("bin")
    command = directory / "crabka"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m crabka.cli "$@"\n')
    command.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["crabka", "top"], ["topics"]),
        (["crabka", "topics", "create", "--p"], ["--partitions"]),
        (["crabka", "configs", "describe", "l"], ["logger"]),
        (["crabka", "up", "--lo"], ["--log-format", "--log-level"]),
    ],
)
def test_bash_completes(crabka: RunCommand, binaries: Path, line: list[str], expected: list[str]) -> None:
    script = crabka("completion", "bash").out
    words = " ".join(f"'{word}'" for word in line)
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _crabka_completion crabka; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(
        [str(shutil.which("bash")), "-c", f"{script}\n{asked}"],
        env={**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


@pytest.mark.parametrize(("shell", "text"), [("zsh", "#compdef crabka"), ("fish", "complete --command crabka")])
def test_other_shells_have_scripts(crabka: RunCommand, shell: str, text: str) -> None:
    done = crabka("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert text in done.out
    assert "_CRABKA_COMPLETE" in done.out


def test_an_unknown_shell_is_refused(crabka: RunCommand) -> None:
    refused = crabka("completion", "cmd")
    assert refused.code == 2
    assert refused.err.startswith("crabka: Invalid value for 'SHELL': 'cmd' is not one of 'bash', 'zsh', 'fish'")
