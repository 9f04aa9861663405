"""The option `where`: which rows of a read are wanted, known before Spark plans it.

Spark's filter push-down to Python sources cannot be used: Spark keeps the source's result for the filters of one query
with the frame, and applies it to every other query on the same frame. An option belongs to its frame.

A condition is SQL's: comparisons of topic, partition, offset and timestamp with constants, joined by AND.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from crabka.errors import ConfigError
from crabka.spark.options.names import WHERE

Constant = str | int | datetime

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[+-]?\d+)|(?P<operator><=|>=|<>|!=|==|[=<>(),])"
    r"|(?P<word>[A-Za-z_]\w*|`[^`]*`))"
)
_MAX_LONG: Final = (1 << 63) - 1


class ComparisonOperator(StrEnum):
    """How a column is compared."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IN = "in"


_OPERATORS: Final = {operator.value: operator for operator in ComparisonOperator} | {
    "==": ComparisonOperator.EQUAL,
    "<>": ComparisonOperator.NOT_EQUAL,
}
_KINDS: Final = {"topic": "text", "partition": "whole numbers", "offset": "whole numbers", "timestamp": "times"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A column and the constants that it is compared with: several for IN, one for all others."""

    column: str
    operator: ComparisonOperator
    constants: tuple[Constant, ...]


def parse_where(text: str) -> tuple[Condition, ...]:
    """Return the comparisons that all have to hold. Raises ConfigError."""
    return tuple(_Parser(text).conditions())


class _Parser:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0

    def conditions(self) -> Iterator[Condition]:
        yield from self._condition()
        while not self._is_at_end():
            self._expect("and", "AND: only conditions that are joined by it are understood")
            yield from self._condition()

    def _condition(self) -> Iterator[Condition]:
        column = self._column()
        word = self._take("an operator").lower()
        if word == "between":
            yield Condition(column, ComparisonOperator.GREATER_OR_EQUAL, (self._constant(column),))
            self._expect("and", "AND")
            yield Condition(column, ComparisonOperator.LESS_OR_EQUAL, (self._constant(column),))
        elif word == "in":
            yield Condition(column, ComparisonOperator.IN, tuple(self._constants(column)))
        elif word in _OPERATORS:
            yield Condition(column, _OPERATORS[word], (self._constant(column),))
        else:
            raise self._error(f"{word} is not an operator; use one of = != < <= > >= IN BETWEEN")

    def _constants(self, column: str) -> Iterator[Constant]:
        self._expect("(", "a list in parentheses")
        yield self._constant(column)
        while (mark := self._take(") or ,")) == ",":
            yield self._constant(column)
        if mark != ")":
            raise self._error(f"{mark} is found instead of ) or ,")

    def _column(self) -> str:
        name = self._take("a column").strip("`").lower()
        if name not in _KINDS:
            raise self._error(f"{name} is not a column for conditions; use one of {', '.join(_KINDS)}")
        return name

    def _constant(self, column: str) -> Constant:
        token = self._take("a constant")
        if column == "timestamp" and token.lower() == "timestamp":
            token = self._take("a time")
        found = _time(token) if column == "timestamp" else _unquoted(token) if column == "topic" else _whole(token)
        if found is None:
            raise self._error(f"{column} is compared with {_KINDS[column]}, not with {token}")
        return found

    def _expect(self, wanted: str, named: str) -> None:
        if self._take(named).lower() != wanted:
            raise self._error(f"{self._tokens[self._next - 1]} is found instead of {named}")

    def _take(self, wanted: str) -> str:
        if self._is_at_end():
            raise self._error(f"it ends before {wanted}")
        self._next += 1
        return self._tokens[self._next - 1]

    def _is_at_end(self) -> bool:
        return self._next == len(self._tokens)

    def _split(self) -> Iterator[str]:
        position = 0
        end = len(self._text.rstrip())
        while position < end:
            found = _TOKEN.match(self._text, position)
            if found is None:
                raise self._error(f"{self._text[position:].strip()[:20]} is not understood")
            position = found.end()
            yield found[0].strip()

    def _error(self, reason: str) -> ConfigError:
        return ConfigError(f"{WHERE} ({self._text.strip()}): {reason}")


def _unquoted(token: str) -> str | None:
    return token[1:-1].replace("''", "'") if token.startswith("'") else None


def _whole(token: str) -> int | None:
    try:
        number = int(token)
    except ValueError:
        return None
    return number if -_MAX_LONG <= number <= _MAX_LONG else None


def _time(token: str) -> datetime | None:
    """Return a time; of one without a zone that of UTC, since a source does not learn the zone of a session."""
    try:
        found = datetime.fromisoformat((_unquoted(token) or "").strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
