"""Error responses of every API and version, made from the schemas.

Kafka's counterpart is `AbstractRequest.getErrorResponse`. `serving.refusals` has the forms that a node itself sends
when a request fails as a whole; here a test may let any request fail, as a whole or in its rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING
from datetime import timedelta
from typing import Any, Final

from crabka.embedded.edge.shapes import CODE_FIELDS, answer_rows, code_field, rows_in, shape_of
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.protocol.schemas import message_class

# Spellings of one identity in requests and responses.
TOPIC_FIELDS: Final = ("topic", "topic_name", "name")
PARTITION_FIELDS: Final = ("partition", "partition_index", "partition_id", "index")
_OTHER_IDENTITIES: Final = (
    *("topic_id", "group_id", "transactional_id", "resource_type", "resource_name", "key"),
    *("member_id", "group_instance_id", "entity_type", "entity_name", "producer_id"),
)
_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(TOPIC_FIELDS, TOPIC_FIELDS),
    **dict.fromkeys(PARTITION_FIELDS, PARTITION_FIELDS),
    **{name: (name,) for name in _OTHER_IDENTITIES},
    "user": ("user", "name"),
}
_EMPTY: Final[dict[str | None, Any]] = {
    "bool": False,
    "bytes": b"",
    "error_code": ErrorCode.none,
    "float64": 0.0,
    "records": b"",
    "string": "",
    "timedelta_i32": timedelta(),
    "timedelta_i64": timedelta(),
    "uuid": None,
}
_UNKNOWN = -1


def error_response(api_key: int, version: int, body: Any, code: ErrorCode, *, in_rows: bool) -> Any:
    """Return the response to a request that failed.

    The code stands where the response has one for the whole request, or with `in_rows`, and where it has none, in every
    row.
    """
    return _filled(message_class(api_key, version, "response"), body, code, in_rows=in_rows, is_row=False)


def _filled(message: Any, source: Any, code: ErrorCode, *, in_rows: bool, is_row: bool = True) -> Any:
    rows = answer_rows(message)
    has_code = code_field(message) is not None
    sources = rows_in(source) if rows is not None and (in_rows or not has_code) else ()
    own_code = ErrorCode.none if sources and has_code else code
    values: dict[str, Any] = {}
    for field in dataclasses.fields(message):
        if field.name in CODE_FIELDS:
            values[field.name] = own_code
        elif field.name == "error_message" and own_code is not ErrorCode.none and has_code:
            values[field.name] = error_message(own_code)
        elif rows is not None and field.name == rows[0]:
            values[field.name] = tuple(_filled(rows[1], each, code, in_rows=in_rows) for each in sources)
        elif is_row and field.name in _SPELLINGS:
            values[field.name] = _identity(field, source)
        elif field.name == "entity":  # of a client quota: an identity of several parts
            values[field.name] = tuple(
                _filled(shape_of(field).kind, each, code, in_rows=False) for each in source.entity
            )
        else:
            values[field.name] = _default(field)
    return message(**values)


def _identity(field: dataclasses.Field[Any], source: Any) -> Any:
    for name in _SPELLINGS[field.name]:
        if hasattr(source, name):
            return getattr(source, name)
    # A row of a request may be just a name or a number.
    is_row = (isinstance(source, str) and field.metadata["kafka_type"] == "string") or (
        isinstance(source, int) and field.name in PARTITION_FIELDS
    )
    return source if is_row else _default(field)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    shape = shape_of(field)
    if shape.is_array:
        return ()
    if shape.is_nullable:
        return None
    if shape.is_struct:
        return _filled(shape.kind, None, ErrorCode.none, in_rows=False)
    return _EMPTY.get(field.metadata.get("kafka_type"), _UNKNOWN)
