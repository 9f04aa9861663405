"""Finds kio's message classes, one (API, version, direction) at a time.

Importing a schema module costs about 10 ms because it defines dataclasses, so nothing is loaded before it is used.
"""

from __future__ import annotations

import functools
import importlib
import re
from types import ModuleType
from typing import Any, Literal

from crabka.protocol.api_keys import SPECS

Direction = Literal["request", "response"]

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


@functools.cache
def package_name(api_key: int) -> str:
    """Return kio's package of an API, e.g. `list_offsets`."""
    return _WORD_START.sub("_", SPECS[api_key].name).lower()


@functools.cache
def schema_module(api_key: int, version: int, direction: Direction) -> ModuleType:
    """Import kio's module of one message. The version must be one that SPECS supports."""
    return importlib.import_module(f"kio.schema.{package_name(api_key)}.v{version}.{direction}")


@functools.cache
def message_class(api_key: int, version: int, direction: Direction) -> Any:
    """Return the dataclass of a whole request or response body."""
    module = schema_module(api_key, version, direction)
    return getattr(module, SPECS[api_key].name + direction.capitalize())


def versions_newest_first(api_key: int) -> range:
    """Return all versions of an API, the newest first."""
    spec = SPECS[api_key]
    return range(spec.max_version, spec.min_version - 1, -1)
