"""The reader of streaming queries: offsets of micro-batches on the driver, splits of each, rows on executors.

Offsets have the form of Spark's Kafka source, so a query can change between the two sources on one checkpoint. What is
needed to notice that a log was cut is kept beside them, by `stream_history`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.spark.options.offset_json import offsets_from_dict, offsets_to_dict
from crabka.spark.plan.latest import OffsetBounds, ask_bounds, start_offsets
from crabka.spark.plan.planner import plan_offsets
from crabka.spark.read.split_reader import ReadSettings
from crabka.spark.source.admission import TriggerDelay, limited, new_records
from crabka.spark.source.batch_reader import partitions_of, read_partition
from crabka.spark.source.first_batch import FirstBatch
from crabka.spark.source.stream_history import StreamHistory

if TYPE_CHECKING:
    import pyarrow as pa

    from crabka.spark.options.source_options import SourceOptions

logger = logging.getLogger(__name__)

OffsetDict = dict[str, dict[str, int]]
Offsets = Mapping[TopicPartition, int]


class CrabkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader. It stays in one process on the driver; executors get a copy of it."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], names: tuple[str, ...]) -> None:
        self._options = options
        self._settings = ReadSettings.of(options, columns)
        self._names = names
        self._delay = TriggerDelay(options.max_trigger_delay_ms)
        self._first = FirstBatch()
        self._history = StreamHistory(options)
        self._is_available_now = False
        self._target: OffsetBounds | None = None
        self._latest: Offsets = {}

    def initialOffset(self) -> OffsetDict:  # noqa: N802 - Spark's name
        """Return where a new query begins: the same offsets however often Spark asks."""
        starts = self._first.starts
        if starts is None:
            found = start_offsets(self._options)
            starts = found.offsets
            self._first.begin_at(starts, found.at_end)
        return offsets_to_dict(starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options; of two the upper one, since the lower one is applied here."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make the query end at the offsets that are available now."""
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetDict:  # noqa: N802 - Spark's name
        """Return where the next batch ends; the start, to wait for more."""
        starts = offsets_from_dict(start)
        bounds = self._bounds(starts)
        self._latest = bounds.latest
        return offsets_to_dict(self._first.end_of(starts, self._admitted(starts, bounds, limit)))

    def reportLatestOffset(self) -> OffsetDict | None:  # noqa: N802 - Spark's name
        """Return how far the topics reach, independently of the limits of batches."""
        return offsets_to_dict(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the splits of a batch. Raises DataLossError."""
        ends = offsets_from_dict(end)
        starts = self._first.start_of(offsets_from_dict(start), ends)
        if starts == ends:
            return []
        plan = plan_offsets(self._options, starts, ends, self._history.chains(starts))
        self._history.verify(plan, starts, ends)
        return partitions_of(plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        return read_partition(partition, self._settings, self._names)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the position to a consumer group, for tools that watch lag; a failure is logged and stops no query."""
        group = self._options.commit_group
        if group is None or self._options.bootstrap is None:
            return
        from crabka.spark.access.broker_session import BrokerSession

        try:
            with BrokerSession(self._options.bootstrap, self._options.client) as session:
                session.commit(group, offsets_from_dict(end))
        except CrabkaError as error:
            logger.warning("the offsets of the query could not be committed to the group %s: %s", group, error)

    def _admitted(self, starts: Offsets, bounds: OffsetBounds, limit: ReadLimit) -> Offsets:
        """Return where a batch ends within the available offsets."""
        if isinstance(limit, ReadAllAvailable):
            return bounds.latest
        wanted = self._options.min_offsets_per_trigger
        # A query that ends at the present offsets must not wait for more, which may never come.
        if wanted is not None and not self._is_available_now:
            available = new_records(starts, bounds.latest)
            if self._delay.holds_back(wanted, available, time.monotonic_ns() // 1_000_000):
                return starts
        if isinstance(limit, ReadMaxRows):
            return limited(limit.max_rows, starts, bounds.earliest, bounds.latest)
        return bounds.latest

    def _bounds(self, starts: Offsets) -> OffsetBounds:
        if not self._is_available_now:
            return ask_bounds(self._options, starts)
        if self._target is None:
            self._target = ask_bounds(self._options, starts)
        return self._target
