"""`--timeout` of every command that talks to a cluster: how long it waits for an answer.

The option is added where the tree of commands is made, so that no command can lack it, and reaches the connections in
a context variable, so that no command has to pass it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Annotated, Any, Final

import typer

from crabka.cli.options import DURATION, as_duration_ms

DEFAULT_TIMEOUT: Final = "30s"
_LEAST_MS: Final = 100
_BOOTSTRAP: Final = "bootstrap"
_TIMEOUT: Final = "timeout"
_timeout_ms: ContextVar[int] = ContextVar("timeout_ms", default=30_000)


def answer_timeout_ms() -> int:
    """Return how long the command that runs waits for an answer of the cluster."""
    return _timeout_ms.get()


def add_timeout(command: Any) -> Any:
    """Add the option to all commands of a tree that have `--bootstrap`; return the tree."""
    option = _option()
    for each in _commands(command):
        names = {parameter.name for parameter in each.params}
        # `crabka doctor` has one of its own, for all that it asks.
        if _BOOTSTRAP in names and _TIMEOUT not in names:
            each.params.append(option)
    return command


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def _set_timeout(given: int) -> None:
    _timeout_ms.set(max(_LEAST_MS, given))


def _with_timeout(
    *,
    timeout: Annotated[
        int,
        typer.Option(
            "--timeout",
            metavar=DURATION,
            parser=as_duration_ms,
            callback=_set_timeout,
            expose_value=False,
            help="Longest wait for an answer of the cluster.",
        ),
    ] = DEFAULT_TIMEOUT,  # type: ignore[assignment]  # typer parses it
) -> None: ...


def _option() -> Any:
    """Return the option as typer makes it of an annotation."""
    template = typer.Typer(add_completion=False)
    template.command()(_with_timeout)
    return next(each for each in typer.main.get_command(template).params if each.name == _TIMEOUT)
