"""The data source `crabka`: its columns, and the readers that Spark asks for.

Spark imports this in every application that has Crabka on its path, so it imports little itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from crabka.spark.source.batch_reader import CrabkaBatchReader
    from crabka.spark.source.stream_reader import CrabkaStreamReader


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


class CrabkaDataSource(DataSource):
    """Topics of a Kafka cluster and their tier as tables and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "crabka"

    def schema(self) -> str:
        """Return the columns; a schema given by the user chooses among them."""
        include_headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return source_schema(include_headers=include_headers)

    def reader(self, schema: StructType) -> CrabkaBatchReader:
        """Return the reader of a batch query. Raises ConfigError."""
        from crabka.spark.options.source_options import SourceOptions
        from crabka.spark.source.batch_reader import CrabkaBatchReader

        options = SourceOptions.parse(dict(self.options), streaming=False)
        return CrabkaBatchReader(options, projected_columns(schema), tuple(schema.names))

    def streamReader(self, schema: StructType) -> CrabkaStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query. Raises ConfigError."""
        from crabka.spark.options.source_options import SourceOptions
        from crabka.spark.source.stream_reader import CrabkaStreamReader

        options = SourceOptions.parse(dict(self.options), streaming=True)
        return CrabkaStreamReader(options, projected_columns(schema), tuple(schema.names))


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
