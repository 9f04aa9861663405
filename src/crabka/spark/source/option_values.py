"""Values of options: numbers, flags, durations and choices, each with a message that names the option."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from crabka.errors import ConfigError

_DURATION: Final = re.compile(r"(-?[0-9]+)\s*([a-z]*)")
_UNIT_MS: Final = {
    "": 1.0,
    "us": 0.001,
    "ms": 1.0,
    "s": 1_000.0,
    "m": 60_000.0,
    "min": 60_000.0,
    "h": 3_600_000.0,
    "d": 86_400_000.0,
}


class OptionValues:
    """Reads values by canonical name. Methods raise ConfigError that says which option is wrong and what is right."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """Return a text without blanks around it; None if it is not given or empty."""
        return self._given.get(name, "").strip() or None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false, in any case of letters."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} is true or false, not {value}")
        return value.lower() == "true"

    def number(self, name: str) -> int | None:
        """Return a whole number."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise ConfigError(f"{name} is a whole number, not {value}") from None

    def positive(self, name: str) -> int | None:
        """Return a whole number above zero."""
        value = self.number(name)
        if value is not None and value <= 0:
            raise ConfigError(f"{name} must be positive, it is {value}")
        return value

    def not_negative(self, name: str, default: int) -> int:
        """Return a whole number that is at least zero."""
        value = self.number(name)
        if value is None:
            return default
        if value < 0:
            raise ConfigError(f"{name} must not be negative, it is {value}")
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return one of some words, in lower case."""
        value = self.text(name)
        if value is None:
            return None
        if value.lower() not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {value}")
        return value.lower()

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return milliseconds of a text such as 15m, 90s or 500, in the words of Spark."""
        value = self.text(name)
        if value is None:
            return default_ms
        found = _DURATION.fullmatch(value.lower())
        if found is None or found[2] not in _UNIT_MS:
            raise ConfigError(f"{name} is a time such as 15m, 90s or 500ms, not {value}")
        return int(int(found[1]) * _UNIT_MS[found[2]])
