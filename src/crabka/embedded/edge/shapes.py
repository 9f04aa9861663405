"""What the schemas say about the rows of requests and of the responses to them.

A request with rows has them in its first array: topics, groups, resources, or plain names and numbers. Its response has
them in the first array whose elements carry an error code.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple, get_args, get_origin

from crabka.protocol.api_keys import ApiKey
from crabka.protocol.schemas import message_class

CODE_FIELDS: Final = ("error_code", "partition_error_code")
# Their requests name topics, but not in the way of their responses.
_ROWS_OF_LOG_DIRS: Final = frozenset((ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS))


class Shape(NamedTuple):
    """The type of a field."""

    kind: Any  # of an element, if it is an array
    is_array: bool
    is_nullable: bool

    @property
    def is_struct(self) -> bool:
        """Whether the value, or each element, is a message of its own."""
        return dataclasses.is_dataclass(self.kind)


def shape_of(field: dataclasses.Field[Any]) -> Shape:
    """Return the shape of a field of a message class."""
    annotation: Any = field.type
    options = [each for each in get_args(annotation) if each is not type(None)]
    is_nullable = type(None) in get_args(annotation)
    if is_nullable and len(options) == 1:
        [annotation] = options
    if get_origin(annotation) is tuple:
        return Shape(get_args(annotation)[0], is_array=True, is_nullable=is_nullable)
    return Shape(annotation, is_array=False, is_nullable=is_nullable)


def answer_rows(response_class: Any) -> tuple[str, Any] | None:
    """Return name and element class of the rows of a response, or of a part of it; None if it has none."""
    for field in dataclasses.fields(response_class):
        shape = shape_of(field)
        if shape.is_array and shape.is_struct and _has_code(shape.kind):
            return field.name, shape.kind
    return None


def request_rows(request_class: Any) -> tuple[str, Any] | None:
    """Return name and element class of the rows of a request, or of a part of it; None if it has none."""
    if not dataclasses.is_dataclass(request_class):
        return None
    for field in dataclasses.fields(request_class):
        shape = shape_of(field)
        if shape.is_array:
            return field.name, shape.kind
    return None


def rows_in(body: Any) -> tuple[Any, ...]:
    """Return the rows of a request, or of a part of it, in the order of the response's rows."""
    match type(body).__name__:
        case "AlterReplicaLogDirsRequest":
            return tuple(topic for log_dir in body.dirs for topic in log_dir.topics)
        case "AlterUserScramCredentialsRequest":
            return (*body.deletions, *body.upsertions)
    rows = request_rows(type(body))
    return () if rows is None else tuple(getattr(body, rows[0]) or ())


def names_topics(api_key: int, version: int) -> bool:
    """Return whether the rows of an API are of topics."""
    response: Any = message_class(api_key, version, "response")
    part: Any = message_class(api_key, version, "request")
    if answer_rows(response) is None or api_key in _ROWS_OF_LOG_DIRS:
        return False
    while (rows := request_rows(part)) is not None:
        name, part = rows
        if "topic" in name:
            return True
    return False


def code_field(message: Any) -> str | None:
    """Return the field with the error code of a response or a row; None if only its rows have one."""
    return next((name for name in CODE_FIELDS if name in message.__dataclass_fields__), None)


def _has_code(message: Any) -> bool:
    return code_field(message) is not None or answer_rows(message) is not None
