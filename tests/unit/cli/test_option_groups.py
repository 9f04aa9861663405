from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from crabka.cli.app import app
from crabka.cli.option_groups import with_option_groups


@dataclass(frozen=True)
class Harbour:
    """A group with an option that must be given and one that need not."""

    pier: Annotated[str, typer.Option("--pier", help="Where ships lie.")]
    depth: Annotated[int, typer.Option("--depth", "-d", envvar="HARBOUR_DEPTH")] = 3


def made() -> tuple[typer.Typer, list[tuple[list[str], Harbour, bool]]]:
    ships = typer.Typer()
    seen: list[tuple[list[str], Harbour, bool]] = []

    @ships.command()
    @with_option_groups
    def moor(
        names: Annotated[list[str], typer.Argument()],
        *,
        harbour: Harbour,
        fast: Annotated[bool, typer.Option("--fast")] = False,
    ) -> None:
        """Moor ships."""
        seen.append((names, harbour, fast))

    return ships, seen


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "b", "--pier", "north"], (["a", "b"], Harbour("north"), False)),
        (["a", "--fast", "-d", "9", "--pier", "south"], (["a"], Harbour("south", 9), True)),
    ],
)
def test_a_group_is_filled_from_its_options(arguments: list[str], expected: tuple[list[str], Harbour, bool]) -> None:
    ships, seen = made()
    assert CliRunner().invoke(ships, arguments).exit_code == 0
    assert seen == [expected]


def test_options_of_a_group_are_those_of_the_command() -> None:
    ships, seen = made()
    assert CliRunner().invoke(ships, ["a"]).exit_code == 2
    assert CliRunner().invoke(ships, ["a", "--pier", "x"], env={"HARBOUR_DEPTH": "7"}).exit_code == 0
    assert seen == [(["a"], Harbour("x", 7), False)]
    help_text = CliRunner().invoke(ships, ["--help"]).output
    assert all(text in help_text for text in ("Moor ships", "--pier", "Where ships lie", "--depth", "--fast"))


@pytest.mark.parametrize("command", ["sync", "status", "rewind"])
def test_commands_of_the_lake_share_their_options(command: str) -> None:
    command_of = {
        each.name: each
        for each in typer.main.get_command(app).commands["lake"].commands.values()  # type: ignore[attr-defined]
    }
    names = [parameter.name for parameter in command_of[command].params]
    assert len(names) == len(set(names))
    shared = {"root", "table_format", "catalog", "bootstrap", "command_config", "tier", "option", "as_json"}
    assert shared <= set(names)
