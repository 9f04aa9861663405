"""All commands have one look: whole sentences, `-h`, lines of at most 80 columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from crabka.cli.app import app, main
from crabka.cli.examples import EXAMPLES
from crabka.cli.node.serve import serve_parser
from crabka.cli.node.up import up_parser
from crabka.cli.tree import build_tree, is_group, leaves

ROOT: Any = build_tree(app)
COMMANDS = dict(leaves(ROOT))
NODE_COMMANDS = {"up": up_parser, "serve": serve_parser}
GROUPS = [name for name, command in ROOT.commands.items() if is_group(command)]


@pytest.mark.parametrize("words", ["", *GROUPS, *sorted(set(COMMANDS) - set(NODE_COMMANDS))])
def test_help_fits_a_terminal_and_cuts_no_sentence(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words.split(), "-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line.endswith("...") and not line.startswith("Usage:")] == []
    assert [line for line in lines if re.search(r"<(str|int|float|list)", line)] == []
    assert ("Examples:" in "".join(lines)) is (words in EXAMPLES)


def test_commands_follow_the_order_of_the_examples() -> None:
    order = dict.fromkeys(words.split()[0] for words in EXAMPLES)
    assert list(ROOT.commands) == list(order)


@pytest.mark.parametrize(("command", "parser"), NODE_COMMANDS.items())
def test_node_commands_complete_their_options(command: str, parser: Callable[[], Any]) -> None:
    found = [each.value for each in ROOT.commands[command].shell_complete(None, "--")]
    assert {"--help", "--log-level"} < set(found)
    assert all(option in parser().format_help() for option in found)
