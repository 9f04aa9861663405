"""The commands as click knows them, with one look: order, names of values, examples, and full sentences in lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import typer

from crabka.cli.examples import EXAMPLES, examples_text
from crabka.cli.node.serve import serve_parser
from crabka.cli.node.up import up_parser
from crabka.cli.timeouts import add_timeout

if TYPE_CHECKING:
    # Typer carries its own click.
    Command = Any
    Parameter = Any

_COMPLETION_OPTIONS: Final = ("install_completion", "show_completion")
# A paragraph that begins with it keeps its lines.
_KEEP_LINES: Final = "\b\n"
_VALUES: Final = {int: "N", float: "X", str: "TEXT"}


def build_tree(app: typer.Typer) -> Command:
    """Return the click command of an application."""
    root: Command = add_timeout(typer.main.get_command(app))
    # `crabka completion` takes their place.
    root.params = [each for each in root.params if each.name not in _COMPLETION_OPTIONS]
    for name, parser in (("up", up_parser()), ("serve", serve_parser())):
        root.commands[name].shell_complete = _completing(parser.format_usage())
    for words, command in _all(root, ()):
        command.epilog = _KEEP_LINES + examples_text(words) if words in EXAMPLES else None
        command.short_help = _first_sentence(command.help or "")
        command.no_args_is_help = is_group(command) and not command.invoke_without_command
        for parameter in command.params:
            _name_value(parameter)
        if is_group(command):
            command.commands = dict(sorted(command.commands.items(), key=lambda each: _place(words, each[0])))
    return root


def _completing(usage: str) -> Callable[[Any, str], list[Any]]:
    """Return what completes the options of a command that click does not parse."""
    options = sorted({*re.findall(r"--[a-z-]+", usage), "--help"})
    core: Any = typer.core
    return lambda _context, start: [core.CompletionItem(each) for each in options if each.startswith(start)]


def leaves(root: Command) -> Iterator[tuple[str, Command]]:
    """Yield all commands that are no groups, with their words."""
    return ((words, command) for words, command in _all(root, ()) if not is_group(command))


def is_group(command: Command) -> bool:
    """Return whether a command has commands."""
    return hasattr(command, "commands")


def _all(command: Command, words: tuple[str, ...]) -> Iterator[tuple[str, Command]]:
    yield " ".join(words), command
    for name, each in getattr(command, "commands", {}).items():
        yield from _all(each, (*words, name))


def _place(words: str, name: str) -> int:
    """Return the position of a command in its group: that of its examples; others follow."""
    wanted = f"{words} {name}".strip()
    places = (index for index, each in enumerate(EXAMPLES) if each == wanted or each.startswith(f"{wanted} "))
    return next(places, len(EXAMPLES))


def _first_sentence(text: str) -> str:
    # Click would cut it after its own choice of words.
    sentence, _, _ = " ".join(text.split()).partition(". ")
    return sentence if not sentence or sentence.endswith(".") else f"{sentence}."


def _name_value(parameter: Parameter) -> None:
    if parameter.param_type_name == "argument":
        # Click adds brackets and dots by itself.
        name = (parameter.metavar or parameter.name).upper()
        if not parameter.type_descriptor.is_choice:
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 - its name says what it is
        parameter.metavar = name.removesuffix("...").removeprefix("[").removesuffix("]") if "[:" not in name else name
        return
    if parameter.metavar is not None or getattr(parameter, "is_flag", False):
        return
    annotation = parameter.type_descriptor.annotation
    kind = next((each for each in _VALUES if annotation in (each, list[each])), None)  # type: ignore[valid-type]
    if kind is not None:
        parameter.metavar = _VALUES[kind]
