"""One node for all tests of the command line, and the command line itself."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from crabka.cli import program
from crabka.cli.main import execute
from tests.support.nodes.crabka_up import CrabkaProcess


class CommandResult(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


RunCommand = Callable[..., CommandResult]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a node that all tests share."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with CrabkaProcess(tmp_path_factory.mktemp("cli-node"), settings) as node:
        yield node.bootstrap_servers


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, which is afterwards as it was before: commands set up the logging of the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget how the tests were started: the process notes it when it runs the entry point of a command."""
    monkeypatch.setattr(program, "_typed", program.NAME)


@pytest.fixture
def crabka(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, root_logger: logging.Logger
) -> RunCommand:
    """Run a command in this process."""

    def run(*arguments: str, stdin: bytes = b"") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = execute(arguments)
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run


@pytest.fixture
def on_broker(crabka: RunCommand, broker: str) -> RunCommand:
    """Run a command against the shared node."""

    def run(*arguments: str, stdin: bytes = b"") -> CommandResult:
        return crabka(*arguments, "--bootstrap", broker, stdin=stdin)

    return run
