"""Values in Avro, with or without the five bytes by which Confluent's serializers say which schema they used.

The schema is given; no schema registry is used. If the mode does not decide, a value whose first byte is zero is read
with these five bytes if the rest is exactly one record, else from its first byte. A record that begins with a zero can
be both, so it is better to choose the mode.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import cached_property
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from crabka.errors import ConfigError
from crabka.spark.lake.values.avro_schemas import avro_fields, without_foreign_types
from crabka.spark.lake.values.value_modes import DecodedValues

_WIRE_MAGIC = 0
_WIRE_BYTES = 5


@dataclass(frozen=True)
class AvroValues:
    """Decodes records of one schema."""

    schema: str
    fields: tuple[pa.Field, ...]
    infers: bool = False
    # Whether there are the five bytes; None if values may have them or not.
    has_prefix: bool | None = None

    @classmethod
    def of(cls, schema: str, *, has_prefix: bool | None = None) -> AvroValues:
        """Return the decoder for a schema in JSON. Raises ConfigError."""
        try:
            content = json.loads(schema)
            fields = avro_fields(content)
            fastavro.parse_schema(content)
        except (ValueError, KeyError, SchemaParseException, UnknownType) as error:
            raise ConfigError(f"The Avro schema cannot be read: {error}") from error
        return cls(schema, fields, has_prefix=has_prefix)

    def with_fields(self, fields: Sequence[pa.Field]) -> AvroValues:  # noqa: ARG002 - as ValueDecoder has it
        """Return the same: the schema says which fields there are."""
        return self

    def decode(self, values: pa.Array) -> DecodedValues:
        """Read the values of many rows."""
        records: list[tuple[int, dict[str, Any] | None]] = []
        bad: list[tuple[int, str]] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                records.append((index, None if value is None else self._record(value)))
            except Exception as error:  # noqa: BLE001 - bytes of others may break the parser in any way
                bad.append((index, f"not a record of the schema: {_reason(error)}"[:300]))
        column = self._structs(records, bad)
        # Fields below a null struct are whatever; `flatten` makes them null.
        return DecodedValues(column.flatten() if self.fields else [], self.fields, sorted(bad))

    def _structs(self, records: list[tuple[int, dict[str, Any] | None]], bad: list[tuple[int, str]]) -> pa.Array:
        """Return the records as structs; those that no column can hold become bad."""
        kind = pa.struct(self.fields)
        try:
            return pa.array([record for _, record in records], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if len(records) == 1:
                bad.append((records[0][0], f"does not fit its columns: {error}"[:300]))
                return pa.array([], kind)
        middle = len(records) // 2
        return pa.concat_arrays([self._structs(records[:middle], bad), self._structs(records[middle:], bad)])

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in dataclass_fields(self)}

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(without_foreign_types(json.loads(self.schema)))

    def _record(self, value: bytes) -> dict[str, Any]:
        may_be_prefixed = len(value) >= _WIRE_BYTES and value[0] == _WIRE_MAGIC
        if self.has_prefix:
            if not may_be_prefixed:
                raise ValueError("it does not begin with the bytes that name a schema")
            return self._whole(value[_WIRE_BYTES:])
        if may_be_prefixed and self.has_prefix is None:
            try:
                return self._whole(value[_WIRE_BYTES:])
            except Exception:  # noqa: BLE001, S110 - a plain record may begin with a zero as well
                pass
        return self._whole(value)

    def _whole(self, data: bytes) -> dict[str, Any]:
        """Return the record that the bytes are; more bytes than it has are an error."""
        stream = io.BytesIO(data)
        record = fastavro.schemaless_reader(stream, self._parsed, None)
        left = len(data) - stream.tell()
        if left:
            raise ValueError(f"{left} bytes are left after the record")
        if not isinstance(record, dict):
            raise TypeError("not a record")
        return record


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "its bytes end before the record does"
    return f"{type(error).__name__}: {error}"
