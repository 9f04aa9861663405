"""How this program was started: texts that suggest a command spell it so that it works when it is typed again.

Modules below the command line write `crabka …`; what prints their texts passes them through `as_typed`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAME: Final = "crabka"

_typed = NAME


def note_typed(arguments: Sequence[str], executable: str = sys.executable) -> None:
    """Remember how the process was started: `sys.argv`."""
    global _typed  # noqa: PLW0603 - a fact about the process, which is noted once
    _typed = typed_program(arguments[0] if arguments else "", executable)


def typed_program(script: str, executable: str) -> str:
    """Return what starts the command line again: `crabka` if a shell finds it, else a path, else a module."""
    given = Path(script)
    # A module (`python -m crabka.cli`) has the command beside its interpreter, if it is installed.
    command = given if given.name == NAME else Path(executable).with_name(NAME)
    found = shutil.which(NAME)
    if not command.exists():
        return f"{shlex.quote(executable)} -m crabka.cli"
    if found is not None and Path(found).resolve() == command.resolve():
        return NAME
    if command.is_absolute() and command.is_relative_to(Path.cwd()):
        command = command.relative_to(Path.cwd())
    # A shell looks for a name without a slash on PATH only.
    return shlex.quote(str(command) if os.sep in str(command) else f".{os.sep}{command}")


def as_typed(text: str) -> str:
    """Return a text whose suggestions in backquotes begin with the program as it was started."""
    return text if _typed == NAME else text.replace(f"`{NAME} ", f"`{_typed} ")


def command_line(text: str) -> str:
    """Return a command, without the name of the program, as it can be typed."""
    return f"{_typed} {text}"
