"""Schemas of values as operators give them: Spark's DDL or JSON, or an Avro record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.spark.lake.values.avro_schemas import avro_fields
from crabka.spark.lake.values.schemas import plain_schema
from crabka.spark.lake.values.value_modes import ValueDecoder, value_decoder

_READABLE = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def decoder_of(mode: str, schema: str | None) -> ValueDecoder:
    """Return the decoder of a value mode and its schema, if one is given. Raises ConfigError."""
    if mode == "json":
        fields = None if schema is None else fields_of(schema)
        _require_readable(fields or (), "")
        return value_decoder(mode, None, fields)
    return value_decoder(mode, schema)


def fields_of(schema: str) -> list[pa.Field]:
    """Return the columns that a schema describes; DDL needs an active Spark session. Raises ConfigError."""
    text = schema.strip()
    if not text.startswith("{"):
        return _of_ddl(text)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"The schema is not JSON: {error}") from None
    if isinstance(content, dict) and content.get("type") == "struct":
        return _of_spark(content)
    return list(avro_fields(content))


def _require_readable(fields: Iterable[pa.Field], where: str) -> None:
    """Raise ConfigError for types that values in JSON cannot be read into."""
    for field in fields:
        kind, path = field.type, where + field.name
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            _require_readable(kind, f"{path}.")
        elif not any(check(kind) for check in _READABLE):
            raise ConfigError(f"The column {path} of the schema is {kind}, which values in JSON cannot be read into")


def _of_ddl(text: str) -> list[pa.Field]:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        struct = StructType.fromDDL(text)
    except PySparkException as error:
        raise ConfigError(f"The schema {text[:100]!r} is not DDL of Spark: {_first_line(error)}") from error
    if not isinstance(struct, StructType):
        raise ConfigError(f"The schema {text[:100]!r} is one type, not a list of columns")
    return _of_struct(struct)


def _of_spark(content: dict[str, object]) -> list[pa.Field]:
    from pyspark.sql.types import StructType

    try:
        return _of_struct(StructType.fromJson(content))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"The schema is not one of Spark's: {error!r}") from error


def _of_struct(struct: StructType) -> list[pa.Field]:
    from pyspark.sql.pandas.types import to_arrow_schema

    return list(plain_schema(to_arrow_schema(struct, timezone="UTC")))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
