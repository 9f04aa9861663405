"""How values become columns: as they are, or by a schema; what cannot be read says why.

A decoder takes the values of many rows and never fails for a single one: bad rows are kept apart and go to the table
of dead letters. A null value, which deletes a key in compacted topics, is a row without any of its fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.spark.lake.values.schemas import RAW_VALUE_FIELD

VALUE_MODES = ("raw", "json", "avro", "avro-plain", "avro-confluent")


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """Columns of the rows that could be read, in their order, and why others could not."""

    columns: Sequence[pa.Array]
    fields: Sequence[pa.Field]
    # Index and reason of bad rows, by index.
    bad: Sequence[tuple[int, str]] = ()
    # Fields that values have and the decoder does not know, if it looks for some.
    new_fields: Sequence[pa.Field] = ()


class ValueDecoder(Protocol):
    """Reads values of one kind. Can be sent to tasks."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        """The columns that values become."""
        ...

    @property
    def infers(self) -> bool:
        """Whether fields that are not known yet become columns."""
        ...

    def with_fields(self, fields: Sequence[pa.Field]) -> ValueDecoder:
        """Return a decoder for more fields."""
        ...

    def decode(self, values: pa.Array) -> DecodedValues:
        """Read the values of many rows."""
        ...


@dataclass(frozen=True, slots=True)
class RawValues:
    """Values as they are."""

    fields: tuple[pa.Field, ...] = field(default=(RAW_VALUE_FIELD,), init=False)
    infers: bool = field(default=False, init=False)

    def with_fields(self, fields: Sequence[pa.Field]) -> RawValues:  # noqa: ARG002 - as ValueDecoder has it
        """Return the same: raw values have one column."""
        return self

    def decode(self, values: pa.Array) -> DecodedValues:
        """Return the values."""
        return DecodedValues([values], self.fields)


def value_decoder(mode: str, schema: str | None, fields: Sequence[pa.Field] | None = None) -> ValueDecoder:
    """Return the decoder of a mode. `schema` is Avro's, `fields` are those of JSON. Raises ConfigError."""
    match mode:
        case "raw":
            if schema is not None or fields is not None:
                raise ConfigError("Raw values have no schema: use --value json or --value avro")
            return RawValues()
        case "json":
            from crabka.spark.lake.values.json_values import JsonValues

            return JsonValues(tuple(fields or ()), infers=fields is None)
        case "avro" | "avro-plain" | "avro-confluent":
            from crabka.spark.lake.values.avro_values import AvroValues

            if schema is None:
                raise ConfigError("Values in Avro need --schema")
            return AvroValues.of(schema, has_prefix={"avro-plain": False, "avro-confluent": True}.get(mode))
    raise ConfigError(f"{mode} is not a value mode: use {', '.join(VALUE_MODES)}")


def rows_but(count: int, bad: Sequence[tuple[int, str]]) -> pa.Array:
    """Return the indexes of `count` rows that are not bad."""
    gone = {index for index, _ in bad}
    return pa.array([index for index in range(count) if index not in gone], pa.int64())
