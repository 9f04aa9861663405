"""The typer application."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from crabka import __version__
from crabka.cli.app import app, main


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"crabka {__version__}\n"


def test_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "create"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "crabka: Missing argument 'TOPIC' (see `crabka topics create -h`)\n"
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["topics"], ["topics", "-h"], ["topics", "--help"]])
def test_a_group_alone_shows_its_commands(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == (2 if arguments == ["topics"] else 0)
    captured = capsys.readouterr()
    assert "delete    Delete topics with all their records." in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("command", ["up", "serve"])
def test_node_commands_are_passed_on(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: crabka {command}" in capsys.readouterr().out


def functions() -> list[Callable[..., Any]]:
    """What all commands of all groups call."""
    found = []
    for group in app.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        found += [each.callback for each in inner.registered_commands if each.callback]
        if inner.registered_callback is not None and inner.registered_callback.callback:
            found.append(inner.registered_callback.callback)
    return found


@pytest.mark.parametrize("function", functions(), ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_commands_that_connect_take_client_properties(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert ("bootstrap" in parameters) == ("command_config" in parameters)


def test_client_properties_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--help"]) == 0
    assert "--command-config" in capsys.readouterr().out
