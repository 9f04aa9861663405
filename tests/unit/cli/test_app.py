"""The typer application."""

from __future__ import annotations

import pytest

from crabka import __version__
from crabka.cli.app import main


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"crabka {__version__}\n"


def test_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "create"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("crabka: Missing argument")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("command", ["up", "serve"])
def test_node_commands_are_passed_on(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: crabka {command}" in capsys.readouterr().out
