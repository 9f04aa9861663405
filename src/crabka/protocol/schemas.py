"""Finds kio's message classes, one (API, version, direction) at a time.

Importing a schema module costs about 10 ms because it defines dataclasses, so nothing is loaded before it is used.

kio takes an instant that cannot be null for a datetime, which has no -1 and ends with the year 9999. Kafka sends both:
a transaction that never began has the start time -1. Such fields are declared as the plain integers that they are.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from kio.static.primitive import TZAware, i64

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
    module = importlib.import_module(f"kio.schema.{package_name(api_key)}.v{version}.{direction}")
    for entity_class in vars(module).values():
        if dataclasses.is_dataclass(entity_class):
            for field in dataclasses.fields(entity_class):
                _declare_instant_as_integer(field)
    return module


def _declare_instant_as_integer(field: dataclasses.Field[Any]) -> None:
    if field.type is TZAware:
        field.type = i64
        field.metadata = MappingProxyType({**field.metadata, "kafka_type": "int64"})


@functools.cache
def message_class(api_key: int, version: int, direction: Direction) -> Any:
    """Return the dataclass of a whole request or response body."""
    module = schema_module(api_key, version, direction)
    return getattr(module, SPECS[api_key].name + direction.capitalize())


def versions_newest_first(api_key: int) -> range:
    """Return all versions of an API, the newest first."""
    spec = SPECS[api_key]
    return range(spec.max_version, spec.min_version - 1, -1)
