"""What a check found: its severity, one sentence with numbers, and the command that mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from crabka.cli.program import NAME, command_line

# Names that a sentence lists; the rest is counted.
_NAMES_SHOWN: Final = 3


class Severity(Enum):
    """How much a finding matters. Errors and warnings are problems."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"
    OK = "ok"

    @property
    def is_problem(self) -> bool:
        """Whether the exit code says so."""
        return self in (Severity.ERROR, Severity.WARNING)


@dataclass(frozen=True, slots=True)
class Command:
    """A command line. Those that use the cluster get the bootstrap servers of this run."""

    words: tuple[str, ...]
    uses_cluster: bool = False

    def text(self, cluster_options: Sequence[str] = ()) -> str:
        """Return the line for a shell."""
        program, *arguments = [*self.words, *(cluster_options if self.uses_cluster else ())]
        return command_line(shlex.join(arguments)) if program == NAME else shlex.join([program, *arguments])


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check about one matter."""

    severity: Severity
    reason: str
    command: Command | None = None
    # All partitions, groups, brokers or files that it is about; the sentence names some.
    places: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What a check found, and what it could not know."""

    findings: Sequence[Finding]
    unknown: Sequence[str] = ()


class NotApplicableError(Exception):
    """A check has nothing to look at here; the text says why."""


def error(reason: str, command: Command | None = None, places: Iterable[object] = ()) -> Finding:
    """Return a finding that needs an operator now."""
    return Finding(Severity.ERROR, reason, command, tuple(map(str, places)))


def warning(reason: str, command: Command | None = None, places: Iterable[object] = ()) -> Finding:
    """Return a finding that becomes an error if nothing is done."""
    return Finding(Severity.WARNING, reason, command, tuple(map(str, places)))


def hint(reason: str, command: Command | None = None, places: Iterable[object] = ()) -> Finding:
    """Return a finding that may be intended."""
    return Finding(Severity.HINT, reason, command, tuple(map(str, places)))


def fine(reason: str) -> Finding:
    """Return what was looked at and found in order."""
    return Finding(Severity.OK, reason)


def on_cluster(*words: object) -> Command:
    """Return a command of crabka that uses the cluster."""
    return Command((NAME, *map(str, words)), uses_cluster=True)


def locally(*words: object) -> Command:
    """Return a command of crabka that works without a cluster, on the machine of a node."""
    return Command((NAME, *map(str, words)))


def shell(*words: object) -> Command:
    """Return a command of the system, or of Kafka where crabka has none."""
    return Command(tuple(map(str, words)))


def start_node(*, is_crabka: bool, **settings: str) -> Command:
    """Return the command that starts a node on its machine, with settings that replace those of its file."""
    overrides = [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
    if is_crabka:
        return locally("serve", "--config", "server.properties", *overrides)
    return shell("kafka-server-start.sh", "server.properties", *overrides)


def some(names: Iterable[object]) -> str:
    """Return the first names, and how many more there are."""
    known = list(map(str, names))
    shown = ", ".join(known[:_NAMES_SHOWN])
    more = len(known) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def brokers(ids: Iterable[int]) -> str:
    """Return `broker 1`, `brokers 1, 2`."""
    known = sorted(ids)
    return f"broker{'s' * (len(known) != 1)} {', '.join(map(str, known))}"


def cannot_reach(ids: Iterable[int]) -> list[str]:
    """Return what is not known of brokers, empty if there are none."""
    known = list(ids)
    return [f"{brokers(known)} cannot be reached"] if known else []


def counted(count: int, noun: str) -> str:
    """Return `1 partition`, `2 partitions`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"
