"""The reader of batch queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from crabka.spark.plan.filters import NO_FILTERS, pushed_filters
from crabka.spark.plan.planner import plan_read
from crabka.spark.read.settings import ReadSettings
from crabka.spark.source.partitions import partitions_of, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from crabka.spark.source.options import SourceOptions


class PushFilters:
    """What `pushFilters` of a reader is.

    Spark refuses a reader that overrides the method while `spark.sql.python.filterPushdown.enabled` is off, which it is
    by default. This looks like the method of the base class, so that such a read works, only without pruning.
    """

    def __init__(self, reader: CrabkaBatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Any]) -> list[Any]:
        """Take note of the bounds that filters set; Spark applies all of them again."""
        self._reader.filters = pushed_filters(filters)
        return filters


class CrabkaBatchReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], names: tuple[str, ...]) -> None:
        """`names` are what the schema calls the columns."""
        self._settings = ReadSettings.of(options, columns)
        self._names = names
        self.filters = NO_FILTERS
        self.pushFilters = PushFilters(self)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        """Return the splits of the read."""
        return partitions_of(plan_read(self._settings.options, self.filters))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        return read_partition(partition, self._settings, self._names)
