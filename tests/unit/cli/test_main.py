"""Errors become one line and an exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from crabka.cli import main
from tests.unit.cli.conftest import RunCommand


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("up", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("up", "--tier", "ftp://bucket"), "--tier ftp://bucket: ftp://bucket is no storage"),
        (("up", "--set", "num.partitions=x"), "Invalid value x for configuration num.partitions"),
        (("up", "--listen", "nowhere"), "'nowhere' is not an address of the form HOST:PORT"),
        (("serve", "--config", "no-such-file"), "cannot read no-such-file: No such file or directory"),
        (("serve",), "the following arguments are required: --config"),
        (("topics", "list", "--bootstrap", "host:port"), "'host:port' is not host:port"),
        (("nonsense",), "No such command 'nonsense' (see `crabka -h`)"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(crabka: RunCommand, arguments: tuple[str, ...], message: str) -> None:
    outcome = crabka(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"crabka: {message}")
    assert outcome.err.count("\n") == 1


def test_a_broker_that_is_not_there_is_exit_1(crabka: RunCommand) -> None:
    outcome = crabka("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.err.startswith("crabka: ")
    assert "127.0.0.1:1" in outcome.err


def test_without_arguments_the_help_is_shown(crabka: RunCommand) -> None:
    outcome = crabka()
    assert outcome.code == 0
    for command in (
        "up",
        "serve",
        "format",
        "topics",
        "configs",
        "records",
        "offsets",
        "brokers",
        "quorum",
        "partitions",
        "cluster",
        "tier",
    ):
        assert command in outcome.out


def test_ctrl_c_is_reported_as_in_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert main.execute(["topics"]) == main.EXIT_INTERRUPTED


def test_run_exits_with_the_code_of_the_command() -> None:
    with pytest.raises(SystemExit) as stop:
        main.run(["up", "--nonsense"])
    assert stop.value.code == 2


def test_starting_a_node_loads_neither_typer_nor_rich() -> None:
    program = (
        "import sys; from crabka.cli.main import execute; execute(['up', '--set', 'x']); "
        "import crabka.node.node; print([m for m in ('typer', 'rich', 'click') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
