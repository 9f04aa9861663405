r"""`ssl.principal.mapping.rules`: from the name in a certificate to that of a principal, as Kafka's SslPrincipalMapper.

Rules are tried in order: `DEFAULT` takes the whole name, `RULE:pattern/replacement/` what the replacement makes of a
name that the pattern matches wholly, with L or U at the end in lower or upper case.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from crabka.errors import ConfigError

KEY: Final = "ssl.principal.mapping.rules"
_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class _Rule(NamedTuple):
    # None takes the name as it is.
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        mapped = _REFERENCE.sub(lambda each: each[1] or found[int(each[2])] or "", self.replacement)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class PrincipalMapping:
    """The rules of a listener."""

    def __init__(self, text: str) -> None:
        """Raises ConfigError."""
        self._rules: list[_Rule] = []
        position, text = 0, text.strip()
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ConfigError(f"{KEY}: not DEFAULT or RULE:pattern/replacement/[LU] from {text[position:]!r} on")
            self._rules.append(_rule(found))
            position = found.end()

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the name of the principal, None if no rule applies."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        return None


def _rule(found: re.Match[str]) -> _Rule:
    if found[1]:
        return _Rule(None, "", "")
    pattern, replacement, case = found[2], found[3], found[4]
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{KEY}: {pattern!r} is no pattern: {error}") from error
    for reference in _REFERENCE.finditer(replacement):
        if reference[2] and int(reference[2]) > compiled.groups:
            raise ConfigError(f"{KEY}: {replacement!r} refers to a group that {pattern!r} does not have")
    return _Rule(compiled, replacement, case)
