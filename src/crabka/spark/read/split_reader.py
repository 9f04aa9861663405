"""The work of a task: the rows of its split, range by range.

A segment that vanished since the plan was made is planned again, from the first offset that is missing: it may have
been copied again, or the broker has it. Rows that were returned before are not returned again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.access.tier_store import ObjectMissingError, TierStore, open_tier_store
from crabka.spark.decode import CorruptBatch, spark_schema_columns
from crabka.spark.errors import DataLossError, TopicChangedError, lose
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import tier_address
from crabka.spark.plan.planner import plan_offsets
from crabka.spark.plan.ranges import BrokerRange, PlannedRange, Split, TierRange
from crabka.spark.read.broker_reader import BrokerReader
from crabka.spark.read.row_filter import columns_to_decode, wanted_rows
from crabka.spark.read.tier_reader import RangeReadAhead, TierRangeReader

if TYPE_CHECKING:
    from crabka.spark.decode import BatchDecoder


logger = logging.getLogger(__name__)
_MAX_REPLANS = 3
_REPLAN_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The options, the columns in their order, and where the tier is, if the driver had to ask for that."""

    options: SourceOptions
    columns: tuple[str, ...]
    tier_uri: str | None = None

    @classmethod
    def of(
        cls, options: SourceOptions, columns: Sequence[str] | None = None, tier_uri: str | None = None
    ) -> ReadSettings:
        """Return settings for some columns; for those that the options imply if none are given."""
        if columns is None:
            columns = [name for name in spark_schema_columns() if name != "headers" or options.include_headers]
        return cls(options, tuple(columns), tier_uri)


def read_split(split: Split, settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split that pass `where`, with the columns of the settings. Runs on executors.

    Raises CorruptBatch, DataLossError, TierReadError and what stores and clients raise.
    """
    # Compiling the decoder, or loading what was compiled before, takes about as long as the first bytes.
    Thread(target=import_module, args=("crabka.spark.decode.decoder",), name="warm-up", daemon=True).start()
    where = settings.options.where
    with ExitStack() as stack:
        for batch in _SplitReader(settings, stack).read(split):
            yield wanted_rows(batch, where).select(settings.columns) if where else batch


class _SplitReader:
    """Connections and the decoder of a task."""

    def __init__(self, settings: ReadSettings, stack: ExitStack, replans: int = 0) -> None:
        self._settings = settings
        self._stack = stack
        self._replans = replans
        self._session: BrokerSession | None = None
        self._store: TierStore | None = None
        self._decoder: BatchDecoder | None = None

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all ranges, in their order."""
        tier = [each for each in split.ranges if isinstance(each, TierRange)]
        ahead = None
        if tier:
            ahead = self._stack.enter_context(RangeReadAhead(self._tier_store(), tier))
        numbers = {each: number for number, each in enumerate(tier)}
        for each in split.ranges:
            if isinstance(each, BrokerRange):
                yield from BrokerReader(self._broker_session(), self._settings.options).read(each, self._make_decoder)
            elif ahead is not None:
                yield from self._read_tier_range(each, ahead.pieces(numbers[each]))

    def _read_tier_range(self, each: TierRange, pieces: Iterator[memoryview]) -> Iterator[pa.RecordBatch]:
        reader = TierRangeReader(each, self._make_decoder())
        try:
            yield from reader.rows(pieces)
        except ObjectMissingError:
            position = reader.next_offset
            logger.info("%s is gone; offsets from %d on are planned again", each.object_name, position)
            yield from self._read_elsewhere(each, position)

    def _read_elsewhere(self, each: TierRange, position: int) -> Iterator[pa.RecordBatch]:
        """Yield what is left of a range whose segment vanished."""
        options = self._settings.options
        if position >= each.end_offset:
            return  # the batch with the last offset reaches over the end of the range
        if self._replans < _MAX_REPLANS:
            time.sleep(_REPLAN_PAUSE_S * self._replans)
            ranges = self._plan_again(each, position)
        elif options.bootstrap is not None and options.read_mode != "tier":
            # The metadata still names what is gone; the disks of the broker may have it.
            ranges = (BrokerRange(each.topic, each.topic_id, each.partition, position, each.end_offset),)
        else:
            lose(options, DataLossError(f"{each.object_name} with offsets {position} to {each.end_offset - 1} is gone"))
            return
        with ExitStack() as stack:
            yield from _SplitReader(self._settings, stack, self._replans + 1).read(Split(ranges))

    def _plan_again(self, each: TierRange, position: int) -> tuple[PlannedRange, ...]:
        """Return where the rest of a range is now; nothing if its topic is gone and that is allowed."""
        partition = TopicPartition(each.topic, each.partition)
        plan = plan_offsets(self._settings.options, {partition: position}, {partition: each.end_offset})
        if plan.topic_ids.get(each.topic) in (None, each.topic_id):
            return tuple(found for split in plan.splits for found in split.ranges)
        # Plans go by names: what they found are offsets of another topic.
        message = f"the topic {each.topic} was deleted and created anew: its id is no longer {each.topic_id}"
        lose(self._settings.options, TopicChangedError(message))
        return ()

    def _make_decoder(self) -> BatchDecoder:
        """Return the decoder; the first call loads compiled code, so requests must be sent before it."""
        if self._decoder is None:
            from crabka.spark.decode import BatchDecoder

            listener = _log_corrupt if self._settings.options.on_corrupt == "report" else None
            columns = self._settings.columns
            if where := self._settings.options.where:
                columns = columns_to_decode(columns, where)
            self._decoder = BatchDecoder(columns, on_corrupt=listener)
        return self._decoder

    def _broker_session(self) -> BrokerSession:
        if self._session is None:
            options = self._settings.options
            if options.bootstrap is None:
                raise ConfigError("kafka.bootstrap.servers must be given to read from brokers")
            self._session = self._stack.enter_context(BrokerSession(options.bootstrap, options.client))
        return self._session

    def _tier_store(self) -> TierStore:
        if self._store is None:
            options = self._settings.options
            uri = self._settings.tier_uri or options.tier_uri
            uri = uri or tier_address(options, self._broker_session())
            if uri is None:
                raise ConfigError("tier.uri must be given to read from the tier")
            self._store = open_tier_store(uri, options.storage)
        return self._store


def _log_corrupt(batch: CorruptBatch) -> None:
    logger.error("left out: %s", batch)
