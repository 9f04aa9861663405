"""Java's .properties syntax, as `java.util.Properties.load` reads it.

Comments start with # or !; a key ends at the first unescaped =, : or blank; a backslash at the end of a line joins
it with the next; escapes are \\t \\n \\r \\f and \\uXXXX; of a repeated key the last value counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a properties text. Raises ConfigError for a broken \\uXXXX escape."""
    result: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        result[_unescape(key)] = _unescape(value)
    return result


def format_properties(values: Mapping[str, str]) -> str:
    """Return a text that `parse_properties` and Java read back as the same keys and values."""
    return "".join(f"{_escape(key, key=True)}={_escape(value, key=False)}\n" for key, value in values.items())


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    joined = False
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continue
        line = pending + line
        if _ends_with_escape(line):
            pending, joined = line[:-1], True
            continue
        pending, joined = "", False
        if line:
            yield line
    if pending:
        yield pending


def _ends_with_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = _key_end(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _key_end(line: str) -> int:
    escaped = False
    for index, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "=:" or char in _BLANKS:
            return index
    return len(line)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char != "\\":
            out.append(char)
            index += 1
            continue
        following = text[index + 1 : index + 2]
        if following == "u":
            out.append(_unicode_escape(text, index))
            index += 6
        else:
            out.append(_ESCAPES.get(following, following))
            index += 2
    return "".join(out)


def _unicode_escape(text: str, index: int) -> str:
    digits = text[index + 2 : index + 6]
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        # What stands there may be part of a password.
        raise ConfigError("malformed \\uXXXX escape")
    return chr(int(digits, 16))


_TO_ESCAPE = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _escape(text: str, *, key: bool) -> str:
    out: list[str] = []
    for index, char in enumerate(text):
        if char in _TO_ESCAPE:
            out.append(_TO_ESCAPE[char])
        elif (key and char in "=: ") or (index == 0 and char in " #!"):
            out.append(f"\\{char}")
        else:
            out.append(char)
    return "".join(out)
