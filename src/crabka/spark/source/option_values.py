"""Values of options: numbers, flags, durations and choices, each with a message that names the option."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from crabka.errors import ConfigError

_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DURATION: Final = re.compile(r"(-?[0-9]+)([a-z]*)")
_UNIT_US: Final = {
    "": 1_000,
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_MAX_LONG: Final = 2**63 - 1


class OptionValues:
    """Reads values by canonical name. Methods raise ConfigError that says which option is wrong and what is right."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """Return a text without blanks around it; None if it is not given or empty."""
        return self._given_text(name) or None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false, in any case of letters."""
        value = self._given_text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} is true or false, not {_shown(value)}")
        return value.lower() == "true"

    def number(self, name: str, *, bits: int = 64) -> int | None:
        """Return a whole number that fits into a number of Java with so many bits."""
        value = self._given_text(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            raise ConfigError(f"{name} is a whole number, not {_shown(value)}")
        # More digits than any number of Java has would be refused by int() itself.
        number = int(value) if len(value) < 100 else _MAX_LONG + 1
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ConfigError(f"{name} is a whole number of {bits} bits, which {_shown(value)} is too large for")
        return number

    def positive(self, name: str, *, bits: int = 64) -> int | None:
        """Return a whole number above zero."""
        value = self.number(name, bits=bits)
        if value is not None and value <= 0:
            raise ConfigError(f"{name} must be positive, it is {value}")
        return value

    def not_negative(self, name: str, default: int, *, bits: int = 64) -> int:
        """Return a whole number that is at least zero."""
        value = self.number(name, bits=bits)
        if value is None:
            return default
        if value < 0:
            raise ConfigError(f"{name} must not be negative, it is {value}")
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return one of some words, in lower case."""
        value = self._given_text(name)
        if value is None:
            return None
        if value.lower() not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {_shown(value)}")
        return value.lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return milliseconds of a text such as 15m, 90s or 500, in the words of Spark."""
        value = self._given_text(name)
        if value is None:
            return default_ms
        found = _DURATION.fullmatch(value.lower())
        if found is None or found[2] not in _UNIT_US or len(found[1]) > 20 or abs(int(found[1])) > _MAX_LONG:
            raise ConfigError(f"{name} is a time such as 15m, 90s or 500ms, not {_shown(value)}")
        number = int(found[1])
        # Java cuts off towards zero, and takes what is too long for the longest time there is.
        length_ms = min(abs(number) * _UNIT_US[found[2]] // 1_000, _MAX_LONG)
        return length_ms if number >= 0 else -length_ms

    def _given_text(self, name: str) -> str | None:
        """Return a text without blanks around it; an empty one is not the same as none."""
        value = self._given.get(name)
        return None if value is None else value.strip()


def _shown(value: str) -> str:
    if not value:
        return "an empty text"
    return value if len(value) <= 100 else f"{value[:100]}…"
