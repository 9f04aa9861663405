"""`crabka completion`: scripts with which shells complete commands, options and choices.

A script calls `crabka` again with COMPLETION_VARIABLE set; typer answers from the same commands that run.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer
import typer.completion

from crabka.cli.main import COMPLETION_VARIABLE
from crabka.cli.program import NAME


class Shell(Enum):
    """Shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.", show_default=False)]) -> None:
    """Print the script that lets a shell complete commands and options."""
    scripts: Any = typer.completion
    print(scripts.get_completion_script(prog_name=NAME, complete_var=COMPLETION_VARIABLE, shell=shell.value))
