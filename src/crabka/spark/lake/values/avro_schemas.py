"""Avro's types as Arrow's, for the columns that values in Avro become.

Pure. A union of null and one type is that type; other unions have no column that holds them all and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from crabka.errors import ConfigError

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
}


def without_foreign_types(schema: Any) -> Any:
    """Return a schema without the logical types that tables do not have: times of day, durations, UUIDs are what they
    are made of."""
    if isinstance(schema, list):
        return [without_foreign_types(member) for member in schema]
    if not isinstance(schema, Mapping):
        return schema
    kind, logical = schema.get("type"), schema.get("logicalType")
    known = logical == "decimal" or (isinstance(kind, str) and (kind, logical) in _LOGICAL)
    return {
        name: without_foreign_types(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
        if name != "logicalType" or known
    }


def avro_fields(schema: Any) -> tuple[pa.Field, ...]:
    """Return the columns of a record. Raises ConfigError that names the field that cannot be one."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ConfigError("The Avro schema of values must be a record")
    kind = _Types().of(schema, str(schema.get("name", "value")))
    return tuple(kind)


class _Types:
    """Types by name: Avro names a record, an enum or a fixed once and refers to it later.

    A name without dots is one of the namespace around it, which is that of the innermost named type that has one.
    """

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType | None] = {}

    def of(self, schema: Any, where: str, space: str = "") -> pa.DataType:
        match schema:
            case str():
                return self._by_name(schema, where, space)
            case list():
                return self._union(schema, where, space)
            case {"type": "record" | "error", "fields": fields}:
                return self._record(schema, fields, where, space)
            case {"type": "enum"}:
                return self._name(schema, pa.string(), space)
            case {"type": "fixed"}:
                return self._name(schema, self._decimal(schema, where) or pa.binary(), space)
            case {"type": "array", "items": items}:
                return pa.list_(self.of(items, f"{where}[]", space))
            case {"type": "map", "values": values}:
                return pa.map_(pa.string(), self.of(values, f"{where}{{}}", space))
            case {"type": str() as name, "logicalType": str() as logical}:
                decimal = self._decimal(schema, where) if name == "bytes" else None
                return decimal or _LOGICAL.get((name, logical)) or self._by_name(name, where, space)
            case {"type": inner}:
                return self.of(inner, where, space)
        raise ConfigError(f"{where} of the Avro schema cannot be understood")

    def _by_name(self, name: str, where: str, space: str) -> pa.DataType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = next((each for each in (_full_name(name, space), name) if each in self._named), None)
        if full is None:
            raise ConfigError(f"{where} of the Avro schema has the type {name}, which is not known")
        known = self._named[full]
        if known is None:
            raise ConfigError(f"{where} of the Avro schema contains itself, which no column can")
        return known

    def _union(self, members: Sequence[Any], where: str, space: str) -> pa.DataType:
        others = [member for member in members if member != "null"]
        if len(others) != 1:
            raise ConfigError(f"{where} of the Avro schema is a union of several types, which no column can hold")
        return self.of(others[0], where, space)

    def _record(
        self, schema: Mapping[str, Any], fields: Sequence[Mapping[str, Any]], where: str, space: str
    ) -> pa.DataType:
        self._name(schema, None, space)
        inner = _full_name(str(schema.get("name", "")), _space_of(schema, space)).rpartition(".")[0]
        members = [
            pa.field(field["name"], self.of(field["type"], f"{where}.{field['name']}", inner)) for field in fields
        ]
        kind = pa.struct(members)
        self._name(schema, kind, space)
        return kind

    def _name(self, schema: Mapping[str, Any], kind: pa.DataType | None, space: str) -> pa.DataType | None:
        name = str(schema.get("name", ""))
        # Also by itself: schemas that were written by hand forget the namespace.
        self._named[name] = self._named[_full_name(name, _space_of(schema, space))] = kind
        return kind

    @staticmethod
    def _decimal(schema: Mapping[str, Any], where: str) -> pa.DataType | None:
        if schema.get("logicalType") != "decimal":
            return None
        precision, scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
        if not 1 <= precision <= 38:
            raise ConfigError(f"{where} of the Avro schema is a decimal of {precision} digits; 38 are possible")
        return pa.decimal128(precision, scale)


def _space_of(schema: Mapping[str, Any], around: str) -> str:
    return str(schema.get("namespace", around) or "")


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"
