"""The columns of the source as Spark types, and the projection that a schema given by the user means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_BY_LOWER_NAME: Final = {name.lower(): name for name in _TYPES}


def source_schema(*, include_headers: bool) -> str:
    """Return the schema of all columns, those of Spark's Kafka source."""
    names = [name for name in _TYPES if name != "headers" or include_headers]
    return ", ".join(f"{name} {_TYPES[name]}" for name in names)


def projected_columns(schema: StructType) -> tuple[str, ...]:
    """Return which columns a schema asks for, in its order.

    Raises ConfigError for a column that does not exist, has another type, or is named twice.
    """
    columns: list[str] = []
    for asked in schema.fields:
        name = _BY_LOWER_NAME.get(asked.name.lower())
        if name is None:
            raise ConfigError(f"there is no column {asked.name}; there are {', '.join(_TYPES)}")
        kind = asked.dataType.simpleString()
        if kind != _TYPES[name]:
            raise ConfigError(f"the column {name} is {_TYPES[name]}, not {kind}")
        if name in columns:
            raise ConfigError(f"the column {name} is asked for twice")
        columns.append(name)
    if not columns:
        raise ConfigError("a schema needs at least one column")
    return tuple(columns)
