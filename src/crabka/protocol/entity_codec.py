"""Encode and decode generated entities (`crabka.protocol.generated`) by their field declarations.

Decoding is kio's native reader behind the length guard. Encoding is our own: kio 0.6 leaves out the presence byte of
a nullable struct inside a tagged field (KIP-893), which Kafka writes and kio's reader expects. Each class is compiled
once into a list of small functions that append to a bytearray. kio reads the zero UUID as None; stored records use it
as a value of its own (the directory of a migrating replica), so decoding puts it back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from kio.serial import entity_reader

from crabka.errors import WireError
from crabka.ids import ZERO_UUID
from crabka.protocol.length_guard import length_guard

if TYPE_CHECKING:
    from crabka.ports import Buffer

E = TypeVar("E")
Write = Callable[[bytearray, Any], None]

_FIXED = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
    "bool": ">?",
}


def encode_entity(entity: object) -> bytes:
    """Return the wire form of an entity, as its class says (version and flexibility)."""
    out = bytearray()
    writer: Write = _entity_writer(type(entity))  # type: ignore[arg-type] # a class is hashable
    writer(out, entity)
    return bytes(out)


def decode_entity(entity_type: type[E], buffer: Buffer, offset: int = 0) -> tuple[E, int]:
    """Read an entity at `offset`; return it and the number of bytes used. Raises WireError for anything malformed."""
    view = memoryview(buffer).toreadonly()
    read: Callable[[memoryview, int], tuple[E, int]] = _entity_reader(entity_type)  # type: ignore[arg-type] # hashable
    return read(view, offset)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@cache
def _entity_reader(entity_type: type[Any]) -> Callable[[memoryview, int], tuple[Any, int]]:
    check_lengths = length_guard(entity_type)
    read = entity_reader(entity_type)
    repair = _zero_uuid_repair(entity_type)  # type: ignore[arg-type] # a class is hashable

    def read_checked(view: memoryview, offset: int) -> tuple[Any, int]:
        check_lengths(view, offset)
        try:
            entity, size = read(view, offset)
        # kio promises no set of exceptions: garbage shows as its own errors, ValueError, OverflowError and others.
        except Exception as error:
            raise WireError(f"malformed {entity_type.__name__}: {error}") from error
        if repair is not None:
            repair(entity)
        return entity, size

    return read_checked


@cache
def _entity_writer(entity_type: type[Any]) -> Write:
    flexible: bool = entity_type.__flexible__
    plain: list[tuple[str, Write]] = []
    tagged: list[tuple[int, str, Any, Write]] = []
    for spec in fields(entity_type):
        writer = _field_writer(spec, flexible=flexible)
        tag = spec.metadata.get("tag")
        if tag is None:
            plain.append((spec.name, writer))
        else:
            tagged.append((tag, spec.name, spec.default, writer))
    tagged.sort(key=lambda item: item[0])

    def write(out: bytearray, entity: Any) -> None:
        for name, writer in plain:
            writer(out, getattr(entity, name))
        if flexible:
            _write_tagged(out, entity, tagged)

    return write


@cache
def _zero_uuid_repair(entity_type: type[Any]) -> Callable[[Any], None] | None:
    """Return a function that replaces None by the zero UUID in a fresh entity; None if it has no UUIDs."""
    steps = [step for spec in fields(entity_type) if (step := _field_repair(spec)) is not None]
    if not steps:
        return None

    def repair(entity: Any) -> None:
        for step in steps:
            step(entity)

    return repair


def _field_repair(spec: Field[Any]) -> Callable[[Any], None] | None:
    name = spec.name
    kind, _, is_array = _field_shape(spec.type)
    if is_dataclass(kind):
        nested = _zero_uuid_repair(kind)  # type: ignore[arg-type] # a class is hashable
        return None if nested is None else _nested_repair(name, nested, is_array=is_array)
    if spec.metadata["kafka_type"] != "uuid":
        return None

    def repair_one(entity: Any) -> None:
        if getattr(entity, name) is None:
            object.__setattr__(entity, name, ZERO_UUID)

    def repair_array(entity: Any) -> None:
        items = getattr(entity, name)
        if items is not None and None in items:
            object.__setattr__(entity, name, tuple(ZERO_UUID if item is None else item for item in items))

    return repair_array if is_array else repair_one


def _nested_repair(name: str, nested: Callable[[Any], None], *, is_array: bool) -> Callable[[Any], None]:
    def repair(entity: Any) -> None:
        value = getattr(entity, name)
        for item in (value or ()) if is_array else () if value is None else (value,):
            nested(item)

    return repair


def _write_tagged(out: bytearray, entity: object, tagged: list[tuple[int, str, Any, Write]]) -> None:
    present = [item for item in tagged if getattr(entity, item[1]) != item[2]]
    write_unsigned_varint(out, len(present))
    for tag, name, _, writer in present:
        body = bytearray()
        writer(body, getattr(entity, name))
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(body))
        out += body


def _field_writer(spec: Field[Any], *, flexible: bool) -> Write:
    kind, nullable, is_array = _field_shape(spec.type)
    if spec.metadata.get("tag") is not None and spec.default is MISSING:
        raise TypeError(f"tagged field {spec.name} needs a default")
    is_struct = is_dataclass(kind)
    element = _entity_writer(kind) if is_struct else _primitive_writer(spec.metadata["kafka_type"], flexible)
    if is_array:
        return _array_writer(element, flexible=flexible)
    if is_struct and nullable:
        return _nullable_struct_writer(element)
    return element


def _field_shape(annotation: Any) -> tuple[Any, bool, bool]:
    """Return (element type, nullable, is array) of a field's annotation."""
    arguments = get_args(annotation)
    nullable = type(None) in arguments
    if nullable:
        annotation = next(item for item in arguments if item is not type(None))
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], nullable, True
    return annotation, nullable, False


@cache
def _primitive_writer(kafka_type: str, flexible: bool) -> Write:  # noqa: FBT001 - cache wants positions
    if kafka_type in _FIXED:
        pack = struct.Struct(_FIXED[kafka_type]).pack
        return lambda out, value: out.extend(pack(value))
    if kafka_type == "uuid":
        return lambda out, value: out.extend((value or ZERO_UUID).bytes)
    if flexible:
        return _write_compact_string if kafka_type == "string" else _write_compact_bytes
    return _write_string if kafka_type == "string" else _write_bytes


def _write_compact_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(0)
        return
    write_unsigned_varint(out, len(value) + 1)
    out += value


def _write_compact_string(out: bytearray, value: str | None) -> None:
    _write_compact_bytes(out, None if value is None else value.encode("utf-8"))


def _write_string(out: bytearray, value: str | None) -> None:
    data = None if value is None else value.encode("utf-8")
    out += struct.pack(">h", -1 if data is None else len(data))
    out += data or b""


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    out += struct.pack(">i", -1 if value is None else len(value))
    out += value or b""


def _array_writer(element: Write, *, flexible: bool) -> Write:
    def write(out: bytearray, items: tuple[Any, ...] | None) -> None:
        if flexible:
            write_unsigned_varint(out, 0 if items is None else len(items) + 1)
        else:
            out.extend(struct.pack(">i", -1 if items is None else len(items)))
        for item in items or ():
            element(out, item)

    return write


def _nullable_struct_writer(element: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        element(out, value)

    return write
