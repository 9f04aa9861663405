"""Checks every length in a message body against the bytes that are there, before kio sees the body.

kio reserves memory for an array from the length on the wire, and a length that lies makes the allocator abort the
whole process. The guard walks a body by its schema without building anything and refuses lengths that cannot be true.
It also bounds the number of array elements, because a decoded element is many times larger than its bytes.
It refuses null where the schema allows none, as Kafka's generated readers do: kio decodes some of these to None, which
no handler expects. What it lets pass may still be malformed (invalid UTF-8): kio finds that.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, get_args, get_origin

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
)
from kio.static.constants import EntityType

from crabka.errors import WireError
from crabka.protocol.wire import read_uvarint

MAX_REQUEST_ELEMENTS = 1 << 20
MAX_RESPONSE_ELEMENTS = 1 << 24

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}

# Position after the field. The last argument holds the number of array elements that are still allowed.
_Skip = Callable[[memoryview, int, list[int]], int]

_unpack_i16 = struct.Struct(">h").unpack_from
_unpack_i32 = struct.Struct(">i").unpack_from


class _Step(NamedTuple):
    """How to pass over one field or type, and the fewest bytes that it takes."""

    skip: _Skip
    min_size: int
    is_fixed: bool = False


def length_guard(entity_class: Any) -> Callable[[memoryview, int], None]:
    """Return a function that raises WireError if a body at an offset holds a length that cannot be true."""
    skip = _entity(entity_class).skip
    name = entity_class.__name__
    is_request = entity_class.__type__ is EntityType.request
    max_elements = MAX_REQUEST_ELEMENTS if is_request else MAX_RESPONSE_ELEMENTS

    def check(view: memoryview, offset: int) -> None:
        try:
            end = skip(view, offset, [max_elements])
        except (IndexError, struct.error) as error:
            raise WireError(f"{name} ends in the middle of a field") from error
        if end > len(view):
            raise WireError(f"{name} ends in the middle of a field")

    return check


def _fixed(size: int) -> _Step:
    def skip(_view: memoryview, position: int, _budget: list[int]) -> int:
        return position + size

    return _Step(skip, size, is_fixed=True)


def is_nullable(field: dataclasses.Field[Any]) -> bool:
    """Return whether the field itself may be null; for an array this says nothing about its items."""
    return type(None) in get_args(field.type) and get_origin(field.type) is not tuple


def items_are_nullable(field: dataclasses.Field[Any]) -> bool:
    """Return whether the items of an array may be null."""
    array = next((item for item in (field.type, *get_args(field.type)) if get_origin(item) is tuple), None)
    return array is not None and type(None) in get_args(get_args(array)[0])


def _refuse_null(name: str) -> WireError:
    return WireError(f"{name} is null, which it may not be")


def _compact_bytes(name: str, *, nullable: bool) -> _Step:
    def skip(view: memoryview, position: int, _budget: list[int]) -> int:
        length, position = read_uvarint(view, position)
        if length:
            return position + length - 1
        if not nullable:
            raise _refuse_null(name)
        return position

    return _Step(skip, 1)


def _legacy_bytes(name: str, unpack_length: Callable[..., tuple[int]], size: int, *, nullable: bool) -> _Step:
    def skip(view: memoryview, position: int, _budget: list[int]) -> int:
        (length,) = unpack_length(view, position)
        if length >= 0:
            return position + size + length
        if not nullable:
            raise _refuse_null(name)
        return position + size

    return _Step(skip, size)


def _primitive(name: str, kafka_type: str, *, nullable: bool, flexible: bool) -> _Step:
    size = _FIXED_SIZES.get(kafka_type)
    if size is not None:
        return _fixed(size)
    if flexible:
        return _compact_bytes(name, nullable=nullable)
    unpack, size = (_unpack_i16, 2) if kafka_type == "string" else (_unpack_i32, 4)
    return _legacy_bytes(name, unpack, size, nullable=nullable)


def _array(name: str, item: _Step, *, nullable: bool, flexible: bool) -> _Step:
    def skip(view: memoryview, position: int, budget: list[int]) -> int:
        if flexible:
            count, position = read_uvarint(view, position)
            count -= 1
        else:
            count = _unpack_i32(view, position)[0]
            position += 4
        if count <= 0:
            if count < 0 and not nullable:
                raise _refuse_null(name)
            return position
        if count * item.min_size > len(view) - position:
            raise WireError(f"an array claims {count} elements in {len(view) - position} bytes")
        budget[0] -= count
        if budget[0] < 0:
            raise WireError("a message has too many array elements")
        if item.is_fixed:
            return position + count * item.min_size
        skip_item = item.skip
        for _ in range(count):
            position = skip_item(view, position, budget)
        return position

    return _Step(skip, 1 if flexible else 4)


def _nullable(step: _Step) -> _Step:
    # KIP-893: a nullable struct is preceded by a byte, negative for null; inside a tagged field too.
    def skip(view: memoryview, position: int, budget: list[int]) -> int:
        return position + 1 if view[position] >= 0x80 else step.skip(view, position + 1, budget)

    return _Step(skip, 1)


def _field(owner: str, field: dataclasses.Field[Any], *, flexible: bool) -> _Step:
    name = f"{owner}.{field.name}"
    nullable = is_nullable(field)
    match classify_field(field):
        case PrimitiveField():
            return _primitive(name, field.metadata["kafka_type"], nullable=nullable, flexible=flexible)
        case PrimitiveTupleField():
            kafka_type = field.metadata["kafka_type"]
            item = _primitive(f"an item of {name}", kafka_type, nullable=items_are_nullable(field), flexible=flexible)
            return _array(name, item, nullable=nullable, flexible=flexible)
        case EntityTupleField(type_):
            return _array(name, _entity(type_), nullable=nullable, flexible=flexible)
        case EntityField(type_):
            return _nullable(_entity(type_)) if nullable else _entity(type_)


def _tagged_fields(known: dict[int, _Step]) -> _Step:
    def skip(view: memoryview, position: int, budget: list[int]) -> int:
        count, position = read_uvarint(view, position)
        if count == 0:
            return position
        budget[0] -= count
        if count * 2 > len(view) - position or budget[0] < 0:
            raise WireError(f"a message claims {count} tagged fields")
        for _ in range(count):
            tag, position = read_uvarint(view, position)
            size, position = read_uvarint(view, position)
            end = position + size
            step = known.get(tag)
            if step is not None and step.skip(view, position, budget) != end:
                raise WireError(f"tagged field {tag} does not have the length it claims")
            position = end
        return position

    return _Step(skip, 1)


def _merged(steps: list[_Step]) -> list[_Step]:
    """Join neighbours of fixed size into one step."""
    merged: list[_Step] = []
    for step in steps:
        if step.is_fixed and merged and merged[-1].is_fixed:
            merged[-1] = _fixed(merged[-1].min_size + step.min_size)
        else:
            merged.append(step)
    return merged


@functools.cache
def _entity(entity_class: Any) -> _Step:
    flexible: bool = entity_class.__flexible__
    steps: list[_Step] = []
    tagged: dict[int, _Step] = {}
    for field in dataclasses.fields(entity_class):
        tag = get_field_tag(field)
        step = _field(entity_class.__name__, field, flexible=flexible)
        if tag is None:
            steps.append(step)
        else:
            tagged[int(tag)] = step
    if flexible:
        steps.append(_tagged_fields(tagged))
    steps = _merged(steps)
    if len(steps) == 1:
        return steps[0]
    skips = tuple(step.skip for step in steps)

    def skip(view: memoryview, position: int, budget: list[int]) -> int:
        for skip_field in skips:
            position = skip_field(view, position, budget)
        return position

    return _Step(skip, sum(step.min_size for step in steps))
