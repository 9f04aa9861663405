"""Durations and sizes as people write and read them: `7d`, `500ms`, `64MiB`, `1GB`.

`K`, `M`, … with `iB` are powers of 1024, with `B` powers of 1000. A setting's name says its unit, as in Kafka
(`retention.ms`, `segment.bytes`, `log.retention.hours`), so that its value may be written with any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from crabka.cli.node.process import parse_settings
from crabka.errors import ConfigError

_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BYTES: Final = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", start=1)},
}
# Words in the names of settings, with the length of what they count.
_TIME_WORDS: Final = {
    "ms": 1,
    "millis": 1,
    "seconds": 1000,
    "secs": 1000,
    "minutes": 60_000,
    "hours": 3_600_000,
}
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_WORDS: Final = re.compile(r"[._]")

_BINARY_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")

DURATION_EXAMPLES: Final = "500ms, 30s, 15m, 12h, 7d, 2w"
SIZE_EXAMPLES: Final = "1048576, 64MiB, 1GB"


def parse_duration_ms(text: str, bare: str = "") -> int:
    """Return the milliseconds of `12h`; a number without a unit is in the bare one. Raises ConfigError.

    Only 0 needs no unit if there is no bare one.
    """
    if text.strip() == "0":
        return 0
    found = _quantity(text.strip() + bare if _NUMBER.fullmatch(text.strip()) else text, _MS)
    if found is None or found.denominator != 1:
        raise ConfigError(f"{text} is no duration: write a number with its unit, such as {DURATION_EXAMPLES}")
    return int(found)


def parse_size_bytes(text: str, bare: str = "b") -> int:
    """Return the bytes of `64MiB`; a number without a unit is in the bare one. Raises ConfigError."""
    found = _quantity(text.strip() + bare if _NUMBER.fullmatch(text.strip()) else text, _BYTES)
    if found is None or found.denominator != 1:
        raise ConfigError(f"{text} is no size: write bytes or a number with its unit, such as {SIZE_EXAMPLES}")
    return int(found)


def parse_config_settings(texts: Iterable[str], option: str) -> dict[str, str]:
    """Turn `key=value` texts into settings of Kafka: `retention.ms=7d` too. Raises ConfigError."""
    return {name: config_value(name, value) for name, value in parse_settings(texts, option).items()}


def config_value(name: str, text: str) -> str:
    """Return a value in the unit of its setting; other values as they are. Raises ConfigError."""
    words = _WORDS.split(name)
    if "bytes" in words or "byte" in words or name.endswith(("buffer.size", "throttled.rate")):
        found, unit = _quantity(text, _BYTES), "bytes"
    else:
        unit = next((word for word in reversed(words) if word in _TIME_WORDS), "")
        found = _quantity(text, _MS) if unit else None
        found = None if found is None else found / _TIME_WORDS[unit]
    if found is None:
        return text
    if found.denominator != 1:
        raise ConfigError(f"{name}={text} is not a whole number of {unit}")
    return str(int(found))


def _quantity(text: str, units: dict[str, int]) -> Fraction | None:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        return None
    return Fraction(match[1]) * units[match[2].lower()]


def format_size(count: float | None) -> str:
    """Return a number of bytes as people read it, in powers of 1024."""
    if count is None:
        return ""
    if count < 1024:
        return f"{count:.0f} B"
    # 1023.96 would be printed as 1024.0.
    fitting = (power for power in range(1, len(_BINARY_UNITS)) if count < 1023.95 * 1024**power)
    power = next(fitting, len(_BINARY_UNITS))
    return f"{count / 1024**power:.1f} {_BINARY_UNITS[power - 1]}"


def format_duration(duration_ms: float | None) -> str:
    """Return a time span in its two largest units, below a second in milliseconds."""
    if duration_ms is None:
        return ""
    if 0 <= duration_ms < 1000:
        return f"{duration_ms:.0f}ms"
    seconds = max(int(duration_ms // 1000), 0)
    days, hours = divmod(seconds // 3600, 24)
    minutes = seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {seconds % 60}s" if minutes else f"{seconds}s"
