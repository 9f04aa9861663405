"""Bodies of messages in which one field that may not be null is null.

The encoder of the product refuses to write such bodies, so they are put together here from the schema: zeros, short
strings and arrays of one element everywhere, and null in the one place.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
)

from crabka.protocol.hot.primitives import uvarint
from crabka.protocol.length_guard import _FIXED_SIZES, is_nullable, items_are_nullable

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str, ...]
ITEM = "[]"


def null_bodies(entity_class: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each field that may not be null with a body in which it is."""
    for path in _paths(entity_class, ()):
        yield ".".join(path), _entity(entity_class, (), path)


def plain_body(entity_class: Any) -> bytes:
    """Return the same kind of body without a null."""
    return _entity(entity_class, (), ("",))


def _paths(entity_class: Any, prefix: Path) -> Iterator[Path]:
    for field in dataclasses.fields(entity_class):
        path = (*prefix, field.name)
        match classify_field(field):
            case PrimitiveField():
                if _is_sized(field) and not is_nullable(field):
                    yield path
            case PrimitiveTupleField():
                if not is_nullable(field):
                    yield path
                if _is_sized(field) and not items_are_nullable(field):
                    yield (*path, ITEM)
            case EntityTupleField(type_):
                if not is_nullable(field):
                    yield path
                yield from _paths(type_, path)
            case EntityField(type_):
                yield from _paths(type_, path)


def _is_sized(field: dataclasses.Field[Any]) -> bool:
    return field.metadata["kafka_type"] not in _FIXED_SIZES


def _entity(entity_class: Any, prefix: Path, null: Path) -> bytes:
    flexible = entity_class.__flexible__
    body = b""
    tagged: list[tuple[int, bytes]] = []
    for field in dataclasses.fields(entity_class):
        path = (*prefix, field.name)
        tag = get_field_tag(field)
        if tag is None:
            body += _field(field, path, null, flexible=flexible)
        elif null[: len(path)] == path:
            tagged.append((int(tag), _field(field, path, null, flexible=flexible)))
    if flexible:
        body += uvarint(len(tagged))
        for number, content in tagged:
            body += uvarint(number) + uvarint(len(content)) + content
    return body


def _field(field: dataclasses.Field[Any], path: Path, null: Path, *, flexible: bool) -> bytes:
    match classify_field(field):
        case PrimitiveField():
            return _primitive(field, is_null=path == null, flexible=flexible)
        case PrimitiveTupleField():
            item = _primitive(field, is_null=(*path, ITEM) == null, flexible=flexible)
            return _array(item, is_null=path == null, flexible=flexible)
        case EntityTupleField(type_):
            return _array(_entity(type_, path, null), is_null=path == null, flexible=flexible)
        case EntityField(type_):
            return (b"\1" if is_nullable(field) else b"") + _entity(type_, path, null)


def _array(item: bytes, *, is_null: bool, flexible: bool) -> bytes:
    if is_null:
        return b"\0" if flexible else b"\xff\xff\xff\xff"
    return (b"\2" if flexible else b"\0\0\0\1") + item


def _primitive(field: dataclasses.Field[Any], *, is_null: bool, flexible: bool) -> bytes:
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in _FIXED_SIZES:
        return bytes(_FIXED_SIZES[kafka_type])
    length_bytes = 1 if flexible else 2 if kafka_type == "string" else 4
    if is_null:
        return b"\0" if flexible else b"\xff" * length_bytes
    return (2 if flexible else 1).to_bytes(length_bytes, "big") + b"x"
