"""Every command has examples, which are options of that command and fit a terminal."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from crabka.cli.app import app
from crabka.cli.examples import EXAMPLES, examples_of, examples_text
from crabka.cli.node.serve import serve_parser
from crabka.cli.node.up import up_parser
from crabka.cli.tree import build_tree, leaves

COMMANDS: dict[str, Any] = dict(leaves(build_tree(app)))
NODE_COMMANDS = {"up": up_parser, "serve": serve_parser}


def test_every_command_has_examples() -> None:
    assert sorted(EXAMPLES) == sorted(COMMANDS)


@pytest.mark.parametrize("words", sorted(EXAMPLES))
def test_examples_are_options_of_their_command(words: str) -> None:
    for example in examples_of(words):
        assert max(map(len, example.splitlines())) <= 76
        arguments = shlex.split(
            example.replace('eval "$(', "").replace(')"', "").partition(" < ")[0].partition(" > ")[0]
        )
        arguments = [each for each in arguments if each.strip()]
        command = words.split()
        assert arguments[: len(command) + 1] == ["crabka", *command]
        rest = arguments[len(command) + 1 :]
        if words in NODE_COMMANDS:
            NODE_COMMANDS[words]().parse_args(rest)
        else:
            COMMANDS[words].make_context(words, rest)


def test_a_group_of_commands_has_no_examples() -> None:
    assert examples_text("topics") == ""
    assert examples_text("tier ls") == "Examples:\n  crabka tier ls orders:0"
