"""Script tests: a text file shows the commands given to a state machine and what follows from each (etcd's datadriven).

A file has comments (`#`), blank lines and blocks. A block is one or more commands, a line `----`, and the output of
these commands up to the next blank line:

    # The first member leads.
    join a
    sync a a=x
    ----
    Answer a: generation=1
    Persist g

A command is a name, words and options (`key=value`), separated by spaces; shell quotes are understood. Every file is
one test with a state machine of its own. `pytest --rewrite` writes the outputs into the files instead of comparing
them, so that a change of behaviour is a diff to review.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SEPARATOR = "----"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a script."""

    name: str
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, line: str) -> Command:
        """Return the command of a line."""
        name, *rest = shlex.split(line)
        words = tuple(each for each in rest if "=" not in each)
        return cls(name, words, dict(each.split("=", 1) for each in rest if "=" in each))


def script_files(directory: Path, pattern: str = "*.txt") -> pytest.MarkDecorator:
    """Return the decorator that runs a test with each script (`path`) of a directory."""
    paths = sorted(directory.glob(pattern))
    assert paths, f"no scripts in {directory}"
    return pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in paths])


def check_script(path: Path, run: Callable[[Command], Iterable[str]], *, rewrite: bool) -> None:
    """Run a script; compare its outputs with what `run` returns for each command, or write them into the file."""
    before = path.read_text()
    after = play(before, run, path.name)
    if rewrite:
        path.write_text(after)
    elif after != before:
        diff = difflib.unified_diff(before.splitlines(), after.splitlines(), "expected", "actual", lineterm="")
        pytest.fail("\n".join([f"{path.name} differs (--rewrite accepts the output):", *diff]), pytrace=False)


def play(text: str, run: Callable[[Command], Iterable[str]], name: str = "script") -> str:
    """Return a script with the outputs that its commands have now."""
    played: list[str] = []
    commands: list[str] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        played.append(line)
        if line == SEPARATOR:
            for command in commands:
                played += _outputs(command, run, f"{name}, the block that ends before line {number}")
            commands = []
            for _, old in lines:
                if not old.strip():
                    played.append(old)
                    break
        elif line.strip() and not line.startswith("#"):
            commands.append(line)
    assert not commands, f"{name}: the last commands have no {SEPARATOR}"
    return "\n".join(played) + "\n"


def _outputs(command: str, run: Callable[[Command], Iterable[str]], where: str) -> list[str]:
    try:
        outputs = list(run(Command.parse(command)))
    except Exception as error:
        error.add_note(f"{where}: {command}")
        raise
    assert all(each.strip() and each != SEPARATOR for each in outputs), f"{command}: blank lines end an output"
    return outputs
