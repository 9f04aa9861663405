"""The one entry of a `sasl.jaas.config`: `<login module> <flag> <option>="<value>" ... ;`, as in Java's JAAS.

The text holds passwords, so no error repeats any part of it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from crabka.errors import ConfigError

KEY: Final = "sasl.jaas.config"
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    | "(?P<double>(?:[^"\\\n]|\\.)*)"
    | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<word>[A-Za-z_$\u00a0-\u00ff][\w$.\-\u00a0-\u00ff]*)
    | (?P<sign>[=;])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_NAMED_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginEntry(NamedTuple):
    """A login module and its options."""

    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    text: str
    is_sign: bool = False


def parse_jaas(text: str) -> LoginEntry:
    """Return the only entry of a JAAS configuration. Raises ConfigError."""
    tokens = _tokens(text)
    end = tokens.index(_Token(";", is_sign=True)) if _Token(";", is_sign=True) in tokens else None
    if end is None:
        raise ConfigError(f"{KEY}: the entry does not end with a semicolon")
    if end + 1 < len(tokens):
        raise ConfigError(f"{KEY}: there is more than one entry")
    entry = tokens[:end]
    if len(entry) < 2 or entry[0].is_sign or entry[1].text.lower() not in _FLAGS:
        raise ConfigError(f"{KEY}: it does not begin with a login module and a flag such as required")
    return LoginEntry(entry[0].text, _options(entry[2:]))


def _options(tokens: list[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        triple = tokens[start : start + 3]
        if [token.is_sign for token in triple] != [False, True, False]:
            raise ConfigError(f'{KEY}: the options are not all of the form name="value"')
        options[triple[0].text] = triple[2].text
    return options


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(f"{KEY}: cannot be read from character {position + 1} on; are values quoted and closed?")
        position = found.end()
        match found.lastgroup:
            case "double" | "single":
                tokens.append(_Token(_unescape(found[found.lastgroup])))
            case "word":
                tokens.append(_Token(found["word"]))
            case "sign":
                tokens.append(_Token(found["sign"], is_sign=True))
    return tokens


def _unescape(text: str) -> str:
    def meaning(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _NAMED_ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(meaning, text)
