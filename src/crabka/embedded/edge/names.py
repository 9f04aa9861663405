"""Names of APIs and of errors as a test writes them: Kafka's, in any case and with or without underscores."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, TypeVar

from crabka.protocol.api_keys import SPECS
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.protocol.api_keys import ApiSpec

T = TypeVar("T")


def api_named(name: str) -> ApiSpec:
    """Return an API that brokers serve, e.g. `OffsetCommit`. Raises ValueError with the names that come close."""
    return _find(name, _APIS, {spec.name: spec for spec in _APIS.values()}, "API")


def error_named(name: str) -> ErrorCode:
    """Return an error code, e.g. `NOT_LEADER_OR_FOLLOWER`. Raises ValueError with the names that come close."""
    return _find(name, _ERRORS, {error_name(code): code for code in _ERRORS.values()}, "error")


def error_name(code: ErrorCode) -> str:
    """Return Kafka's name of an error code."""
    return code.name.upper()


def _find(name: str, values: Mapping[str, T], known: Mapping[str, T], kind: str) -> T:
    found = values.get(_key(name))
    if found is None:
        close = difflib.get_close_matches(_key(name), values, n=3)
        spelt = [each for each, value in known.items() for key in close if values[key] == value]
        hint = f"did you mean {' or '.join(spelt)}?" if spelt else f"for example {next(iter(known))}"
        raise ValueError(f"Kafka has no {kind} {name!r}: {hint}")
    return found


def _key(name: str) -> str:
    return name.replace("_", "").lower()


_APIS: Final = {_key(spec.name): spec for spec in SPECS.values() if spec.on_broker}
_ERRORS: Final = {_key(code.name): code for code in ErrorCode if code is not ErrorCode.none}
