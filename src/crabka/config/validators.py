"""Checks that settings share: ranges, choices and lists, with Kafka's wording of a refusal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.config.keys import Value, invalid, to_text
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Between:
    """A number with optional inclusive limits."""

    low: float | None = None
    high: float | None = None

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError for a number outside the limits; None has no size and passes."""
        if not isinstance(value, int | float):
            return
        if self.low is not None and value < self.low:
            raise invalid(name, value, f"Value must be at least {to_text(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid(name, value, f"Value must be no more than {to_text(self.high)}")

    def describe(self) -> str:
        """Return the interval in Kafka's notation."""
        if self.high is None:
            return f"[{self.low},...]"
        return f"[{'...' if self.low is None else f'{self.low},...'},{self.high}]"


def at_least(low: float) -> Between:
    """A number that must not be smaller than `low`."""
    return Between(low=low)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    choices: tuple[str, ...]
    ignore_case: bool = False

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError for any other word."""
        if value is None and self.ignore_case:
            return
        if self.ignore_case:
            if str(value).upper() not in {choice.upper() for choice in self.choices}:
                raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(self.choices)}")
        elif value not in self.choices:
            raise invalid(name, value, f"String must be one of: {', '.join(self.choices)}")

    def describe(self) -> str:
        """Return the words."""
        return f"[{', '.join(self.choices)}]"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list without blanks, optionally of given words only."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = True

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError for an empty list, or an empty or unknown member."""
        if not isinstance(value, tuple):
            return
        if not value and not self.may_be_empty:
            allowed = f"[{', '.join(self.choices)}]" if self.choices else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {allowed}")
        for member in value:
            if not member:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.choices and member not in self.choices:
                raise invalid(name, member, f"String must be one of: {', '.join(self.choices)}")

    def describe(self) -> str:
        """Return the words that may be members."""
        return f"of [{', '.join(self.choices)}]" if self.choices else "of any"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """Text with at least one character."""

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError for an empty text."""
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def describe(self) -> str:
        """Return the rule in words."""
        return "non-empty"


@dataclass(frozen=True, slots=True)
class Matches:
    """Anything that a predicate accepts."""

    accepts: Callable[[Value], bool]
    allowed: str
    reason: str

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError with the reason, in which {name} is the key, when the predicate says no."""
        if not self.accepts(value):
            raise invalid(name, value, self.reason.format(name=name))

    def describe(self) -> str:
        """Return the rule in words."""
        return self.allowed


_REPLICA = re.compile(r"[0-9]+:[0-9]+\Z")


def _is_replica_list(value: Value) -> bool:
    return isinstance(value, tuple) and (value == ("*",) or all(_REPLICA.match(item) for item in value))


THROTTLED_REPLICAS = Matches(
    _is_replica_list,
    "* or [partition]:[broker],...",
    "{name} must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
)


def _is_gzip_level(value: Value) -> bool:
    return isinstance(value, int) and (value == -1 or 1 <= value <= 9)


GZIP_LEVEL = Matches(_is_gzip_level, "[1,...,9] or -1", "Value must be between 1 and 9 or equal to -1")
LZ4_LEVEL = Between(1, 17)
ZSTD_LEVEL = Between(-131072, 22)

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.%\w]+\]|[^:\s\[\]]+):[0-9]{1,5}\Z")
_VOTER = re.compile(r"[0-9]+@(\[[0-9a-fA-F:.%\w]+\]|[^:\s\[\]]+):[0-9]{1,5}\Z")


def _all_match(pattern: re.Pattern[str], value: Value) -> bool:
    return isinstance(value, tuple) and all(pattern.match(member) for member in value)


ADDRESSES = Matches(
    lambda value: _all_match(_HOST_PORT, value),
    "host:port,...",
    'Each entry should be in the form "{{host}}:{{port}}"',
)
VOTERS = Matches(
    lambda value: _all_match(_VOTER, value),
    "id@host:port,...",
    'Each entry should be in the form "{{id}}@{{host}}:{{port}}"',
)
