"""The data source `crabka`: what Spark asks first.

Spark imports this in every application that has Crabka on its path, so it imports little itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from crabka.spark.source.schema import projected_columns, source_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from crabka.spark.source.batch_reader import CrabkaBatchReader
    from crabka.spark.source.stream_reader import CrabkaStreamReader


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
        from crabka.spark.source.batch_reader import CrabkaBatchReader
        from crabka.spark.source.options import SourceOptions

        options = SourceOptions.parse(dict(self.options), streaming=False)
        return CrabkaBatchReader(options, projected_columns(schema), tuple(schema.names))

    def streamReader(self, schema: StructType) -> CrabkaStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query. Raises ConfigError."""
        from crabka.spark.source.options import SourceOptions
        from crabka.spark.source.stream_reader import CrabkaStreamReader

        options = SourceOptions.parse(dict(self.options), streaming=True)
        return CrabkaStreamReader(options, projected_columns(schema), tuple(schema.names))
