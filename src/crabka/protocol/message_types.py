"""Builds kio messages from plain values, so that handlers speak only ints, strings and tuples.

kio types durations as timedelta and instants as datetime; Kafka's handlers think in milliseconds. The conversion in
both directions lives here. Fields that a version lacks are left out, so that one handler serves all versions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.schemas import Direction, message_class, schema_module, versions_newest_first

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# kio decodes through floats, which puts a duration or an instant some microseconds beside its millisecond.
_HALF = timedelta(microseconds=500)
NULL_TIMESTAMP_MS = -1


def ms(value: timedelta | datetime | int | None) -> int:
    """Return milliseconds of a duration or an instant that kio decoded; null is -1."""
    match value:
        case None:
            return NULL_TIMESTAMP_MS
        case timedelta():
            return (value + _HALF) // _MILLISECOND
        case datetime():
            return (value - _EPOCH + _HALF) // _MILLISECOND
        case _:
            return value


def _to_duration(value: timedelta | int) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(milliseconds=value)


def _to_instant(value: datetime | int | None) -> datetime | None:
    if value == NULL_TIMESTAMP_MS:
        return None
    return _EPOCH + timedelta(milliseconds=value) if isinstance(value, int) else value


def _to_error_code(value: int) -> ErrorCode:
    return value if isinstance(value, ErrorCode) else ErrorCode(value)


def _to_tuple(value: Any) -> tuple[Any, ...] | None:
    # kio leaves a tagged array out only when it equals the empty tuple, which an empty list does not.
    return None if value is None else tuple(value)


def _converter(field: dataclasses.Field[Any]) -> Callable[[Any], Any] | None:
    if str(field.type).startswith("tuple"):
        return _to_tuple
    match field.metadata.get("kafka_type"):
        case "timedelta_i32" | "timedelta_i64":
            return _to_duration
        case "datetime_i64":
            return _to_instant
        case "error_code":
            return _to_error_code
        case _:
            return None


class _Plan(NamedTuple):
    """All that is needed to build one class, worked out once."""

    entity_class: Any
    field_names: frozenset[str]
    converters: tuple[tuple[str, Callable[[Any], Any]], ...]


def _plan_for(entity_class: Any) -> _Plan:
    fields = dataclasses.fields(entity_class)
    converters = ((field.name, _converter(field)) for field in fields)
    return _Plan(
        entity_class,
        frozenset(field.name for field in fields),
        tuple((name, convert) for name, convert in converters if convert is not None),
    )


class MessageTypes:
    """The classes of one (API, version, direction)."""

    def __init__(self, api_key: int, version: int, direction: Direction) -> None:
        self.api_key = api_key
        self.version = version
        self.direction: Direction = direction
        self.message_name: str = message_class(api_key, version, direction).__name__
        self._plans: dict[str, _Plan] = {}
        self._foreign_fields: dict[str, frozenset[str]] = {}

    def new(self, name: str, /, **fields: Any) -> Any:
        """Build the class `name`, e.g. `new("MetadataResponseTopic", name="t", error_code=ErrorCode.none, ...)`.

        Durations and instants are given in milliseconds, arrays as any sequence. Fields known only to other versions
        of the message are dropped. A class known only to other versions is built in the form of the newest of them:
        the field that would hold it is dropped as well.
        Raises TypeError for a field or class that no version has and for missing fields without a default.
        """
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = self._find_plan(name)
        if not fields.keys() <= plan.field_names:
            fields = self._without_foreign_fields(name, plan, fields)
        for field_name, convert in plan.converters:
            if field_name in fields:
                fields[field_name] = convert(fields[field_name])
        return plan.entity_class(**fields)

    def message(self, **fields: Any) -> Any:
        """Build the whole request or response body."""
        return self.new(self.message_name, **fields)

    def has_field(self, name: str, field_name: str) -> bool:
        """Return whether this very version carries the field."""
        entity_class = getattr(schema_module(self.api_key, self.version, self.direction), name, None)
        return entity_class is not None and field_name in entity_class.__dataclass_fields__

    def _find_plan(self, name: str) -> _Plan:
        for version in (self.version, *versions_newest_first(self.api_key)):
            module = schema_module(self.api_key, version, self.direction)
            entity_class = getattr(module, name, None)
            if entity_class is not None and entity_class.__module__ == module.__name__:
                return _plan_for(entity_class)
        raise TypeError(f"no version of {self.message_name} has a class {name}")

    def _without_foreign_fields(self, name: str, plan: _Plan, fields: Mapping[str, Any]) -> dict[str, Any]:
        for unknown in fields.keys() - plan.field_names - self._foreign_fields.get(name, frozenset()):
            if not _exists_in_some_version(self.api_key, self.direction, name, unknown):
                known = ", ".join(sorted(plan.field_names))
                raise TypeError(f"no version of {name} has a field {unknown!r}; version {self.version} has: {known}")
            self._foreign_fields[name] = self._foreign_fields.get(name, frozenset()) | {unknown}
        return {key: value for key, value in fields.items() if key in plan.field_names}


@functools.cache
def _exists_in_some_version(api_key: int, direction: Direction, name: str, field_name: str) -> bool:
    # The newest version has nearly every field, so that few other modules are ever loaded for this.
    for version in versions_newest_first(api_key):
        entity_class = getattr(schema_module(api_key, version, direction), name, None)
        if entity_class is not None and field_name in entity_class.__dataclass_fields__:
            return True
    return False


@functools.cache
def response_types(api_key: int, version: int) -> MessageTypes:
    """Return the classes of a response."""
    return MessageTypes(api_key, version, "response")


@functools.cache
def request_types(api_key: int, version: int) -> MessageTypes:
    """Return the classes of a request."""
    return MessageTypes(api_key, version, "request")
