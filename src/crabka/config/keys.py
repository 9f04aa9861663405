"""Declarations of settings: type, default, check and meaning of each, and the parsing that Kafka does.

A declaration is data: it knows how to turn the text of a properties file or of a request into a value, and says
in Kafka's own words why a text is refused. It does not know where a value came from; see `resolve` for that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value; lists are tuples, classes and passwords are plain text."""

Scope = Literal["read-only", "per-broker", "cluster-wide"]
"""When a broker key may change: only by a restart, on one broker, or on one broker and on all at once."""
Effect = Literal["full", "none"]
"""Whether Crabka acts on a key, or only knows, checks and reports it."""

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class ConfigType(IntEnum):
    """Types of settings; the numbers are those of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
LONG, DOUBLE, LIST, CLASS = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD
PER_BROKER: Scope = "per-broker"
CLUSTER_WIDE: Scope = "cluster-wide"


class _Required:
    """The type of REQUIRED: no default exists."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

# A password keeps its blanks; a boolean drops them but shows them in its complaint, as Kafka does.
_UNTRIMMED = frozenset({ConfigType.PASSWORD, ConfigType.BOOLEAN})
_DOUBLE_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?\Z", re.ASCII)
_INTEGER_LIMITS = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (INT_MIN, INT_MAX),
    ConfigType.LONG: (LONG_MIN, LONG_MAX),
}


class Validator(Protocol):
    """A check on a parsed value."""

    def check(self, name: str, value: Value) -> None:
        """Raise ConfigError when the value is not allowed for the key `name`."""
        ...

    def describe(self) -> str:
        """Return the allowed values in a few characters, for the reference page."""
        ...


def invalid(name: str, value: Value, reason: str) -> ConfigError:
    """Return the error for a refused value, worded as Kafka words it."""
    return ConfigError(f"Invalid value {_shown(value)} for configuration {name}: {reason}")


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "null" if value is None else to_text(value)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting that Crabka knows."""

    name: str
    type: ConfigType
    default: Value | _Required
    doc: str
    validator: Validator | None = None
    scope: Scope = "read-only"
    effect: Effect = "full"
    internal: bool = False
    """Internal keys are listed by DescribeConfigs only where they are set."""

    @property
    def dynamic(self) -> bool:
        """True if the value can change while the node runs."""
        return self.scope != "read-only"

    @property
    def sensitive(self) -> bool:
        """True if the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def default_value(self) -> Value:
        """The default; None also where a value is required."""
        return None if isinstance(self.default, _Required) else self.default

    @property
    def default_text(self) -> str | None:
        """The default as DescribeConfigs shows it."""
        return to_text(self.default_value) if self.default_value is not None else None

    def parse(self, text: str) -> Value:
        """Turn text into a checked value. Raises ConfigError in Kafka's words."""
        value = _PARSERS[self.type](self.name, text if self.type in _UNTRIMMED else text.strip())
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raise ConfigError when a parsed value is out of bounds."""
        if self.validator is not None:
            self.validator.check(self.name, value)


class KeyOptions(TypedDict, total=False):
    """The optional fields of a ConfigKey."""

    validator: Validator | None
    scope: Scope
    effect: Effect
    internal: bool


def boolean(name: str, doc: str, *, default: bool, **options: Unpack[KeyOptions]) -> ConfigKey:
    """Declare a setting that is true or false."""
    return ConfigKey(name, ConfigType.BOOLEAN, default, doc, **options)


def to_text(value: Value) -> str:
    """Return the text of a value as Kafka prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def _java_double(value: float) -> str:
    """Java prints large and tiny numbers as 1.5E10, where Python prints 15000000000.0 or 1.5e+10."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value:.17e}".partition("e")
    for precision in range(17):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            digits, _, exponent = text.partition("e")
            break
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _parse_boolean(name: str, text: str) -> Value:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise invalid(name, text, "Expected value to be either true or false")


def _integer_parser(kind: ConfigType, what: str) -> _Parser:
    low, high = _INTEGER_LIMITS[kind]

    def parse(name: str, text: str) -> Value:
        # Java takes an optional sign and digits; Python's int() would also take underscores and spaces.
        digits = text[1:] if text[:1] in ("+", "-") else text
        if digits.isascii() and digits.isdigit() and low <= (number := int(text)) <= high:
            return number
        raise invalid(name, text, f"Not a number of type {what}")

    return parse


def _parse_double(name: str, text: str) -> Value:
    # Java takes a suffix that Python does not; NaN, which Java takes too, has no use as a setting.
    if _DOUBLE_TEXT.match(text) is None:
        raise invalid(name, text, "Not a number of type DOUBLE")
    return float(text.rstrip("dDfF"))


def _parse_string(_name: str, text: str) -> Value:
    return text


def parse_list(text: str) -> tuple[str, ...]:
    """Split a comma-separated list as Kafka does: blanks around commas go, an empty text is an empty list."""
    stripped = text.strip()
    return tuple(part.strip() for part in stripped.split(",")) if stripped else ()


class _Parser(Protocol):
    def __call__(self, name: str, text: str, /) -> Value: ...


def _parse_list(_name: str, text: str) -> Value:
    return tuple(dict.fromkeys(parse_list(text)))


_PARSERS: dict[ConfigType, _Parser] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: _parse_string,
    ConfigType.INT: _integer_parser(ConfigType.INT, "INT"),
    ConfigType.SHORT: _integer_parser(ConfigType.SHORT, "SHORT"),
    ConfigType.LONG: _integer_parser(ConfigType.LONG, "LONG"),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: _parse_string,
    ConfigType.PASSWORD: _parse_string,
}


def index_keys(*groups: Iterable[ConfigKey]) -> Mapping[str, ConfigKey]:
    """Return keys by name, sorted by name. Raises ValueError when a name is declared twice."""
    result: dict[str, ConfigKey] = {}
    for group in groups:
        for key in group:
            if key.name in result:
                raise ValueError(f"{key.name} is declared twice")
            result[key.name] = key
    return dict(sorted(result.items()))
