"""Requests of every API and version with one element in every array, made from the schemas."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any
from uuid import UUID

from crabka.embedded.edge.shapes import shape_of
from crabka.protocol.schemas import message_class

SAMPLE_TOPIC_ID = UUID(int=7)
SAMPLE_PARTITION = 3
_VALUES: dict[str | None, Any] = {
    "bool": False,
    "bytes": b"",
    "records": b"",
    "float64": 0.5,
    "string": "sample",
    "timedelta_i32": timedelta(milliseconds=1),
    "timedelta_i64": timedelta(milliseconds=1),
    "uuid": SAMPLE_TOPIC_ID,
}


def sample_request(api_key: int, version: int) -> Any:
    """Return a request body; its strings are "sample", its numbers SAMPLE_PARTITION."""
    return _sample(message_class(api_key, version, "request"))


def _sample(message: Any) -> Any:
    return message(**{field.name: _value(field) for field in dataclasses.fields(message)})


def _value(field: dataclasses.Field[Any]) -> Any:
    shape, kind = shape_of(field), field.metadata.get("kafka_type")
    if kind == "datetime_i64":
        return None
    value = _sample(shape.kind) if shape.is_struct else _VALUES.get(kind, SAMPLE_PARTITION)
    return (value,) if shape.is_array else value
