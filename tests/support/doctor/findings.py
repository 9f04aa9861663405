"""Reads findings of `crabka doctor`, and checks what holds for all: a sentence, and a command that exists."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from crabka.cli.app import app
from crabka.cli.doctor.finding import Finding, Outcome, Severity
from crabka.cli.node.serve import serve_parser
from crabka.cli.node.up import up_parser
from crabka.cli.tree import build_tree

# Commands of the system and of Kafka that findings may name; all others are ours.
OTHER_TOOLS = {"chown", "ls", "prlimit", "sh", "timedatectl", "kafka-features.sh", "kafka-server-start.sh"}
NODE_COMMANDS = {"up": up_parser, "serve": serve_parser}


def texts(outcome: Outcome) -> list[tuple[str, str]]:
    """Severity and sentence of each finding, after the checks that hold for all."""
    return [(finding.severity.value, finding.reason) for finding in checked(outcome.findings)]


def only(outcome: Outcome) -> Finding:
    """The one finding."""
    (finding,) = checked(outcome.findings)
    return finding


def line(finding: Finding) -> str:
    """Its command as it is printed, without options of the cluster."""
    return "" if finding.command is None else finding.command.text()


def checked(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, if all of them are well formed."""
    found = list(findings)
    for finding in found:
        assert finding.reason == " ".join(finding.reason.split())
        assert finding.severity is Severity.OK or finding.reason.endswith(".")
        assert not finding.reason.endswith("..")
        if finding.command is not None:
            check_command(finding.command.words)
    return found


def check_command(words: Sequence[str]) -> None:
    """Parse a command line as the command itself would, without running it. Raises what the parser raises."""
    program, *arguments = words
    if program != "crabka":
        assert program in OTHER_TOOLS, f"{program} is not a known tool"
    elif arguments[0] in NODE_COMMANDS:
        NODE_COMMANDS[arguments[0]]().parse_args(arguments[1:])
    else:
        _parse(_tree(), list(words), None)


@functools.cache
def _tree() -> Any:
    return build_tree(app)


def _parse(command: Any, words: list[str], parent: Any) -> None:
    context = command.make_context(words[0], words[1:], parent=parent)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if hasattr(command, "resolve_command") and (rest or not command.invoke_without_command):
        name, found, arguments = command.resolve_command(context, rest)
        _parse(found, [name, *arguments], context)
