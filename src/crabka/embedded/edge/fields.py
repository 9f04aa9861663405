"""Messages as plain values, and the error codes in them."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from crabka.embedded.edge.names import error_name
from crabka.embedded.edge.shapes import CODE_FIELDS
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms

if TYPE_CHECKING:
    from collections.abc import Iterator


def plain_fields(message: Any) -> dict[str, Any]:
    """Return the fields of a message as dicts, lists, strings and numbers; durations and instants in milliseconds."""
    return {field.name: _plain(getattr(message, field.name)) for field in dataclasses.fields(message)}


def error_codes_of(message: Any) -> list[ErrorCode]:
    """Return the codes of the errors in a response, each once, in their order."""
    return list(dict.fromkeys(_codes(message)))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain_fields(value)
    match value:
        case tuple():
            return [_plain(each) for each in value]
        case timedelta() | datetime():
            return ms(value)
        case ErrorCode():
            return error_name(value)
    return value


def _codes(value: Any) -> Iterator[ErrorCode]:
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if field.name in CODE_FIELDS and inner:
            yield ErrorCode(inner)
        elif dataclasses.is_dataclass(inner):
            yield from _codes(inner)
        elif isinstance(inner, tuple) and inner and dataclasses.is_dataclass(inner[0]):
            for each in inner:
                yield from _codes(each)
