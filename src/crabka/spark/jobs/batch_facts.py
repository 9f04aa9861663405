"""Sums over the headers of batches in a tier: codecs, stored bytes, and the time from event to tier.

Runs in tasks: the bytes of a range are read once, and one sum per topic, day and codec is kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError
from crabka.records.compression import CODEC_NAMES
from crabka.records.header import BatchHeader
from crabka.remote.scrub.batches import walk_batches
from crabka.spark.access.tier_store import open_tier_store
from crabka.spark.plan.ranges import Split, TierRange
from crabka.spark.read.tier_reader import RangeReadAhead
from crabka.spark.session.row_tasks import ArrowTask

if TYPE_CHECKING:
    import pyarrow as pa

DAY_MS: Final = 86_400_000
LAST_DAY: Final = 2_932_896
"""The last day of the year 9999; what lies after it no calendar has."""
UNKNOWN_DAY: Final = -1
"""The day of records without a time, or with one that no calendar has, such as microseconds for milliseconds."""
FACT_COLUMNS: Final = ("topic", "day", "codec", "records", "batches", "stored_bytes", "lag_sum_ms", "lag_max_ms")
FACT_SCHEMA: Final = (
    "topic string, day long, codec string, records long, batches long, stored_bytes long, lag_sum_ms double, "
    "lag_max_ms long"
)


@dataclass(slots=True)
class BatchSum:
    """Batches of one topic, day and codec; lags are those of their records, from event to tier."""

    records: int = 0
    batches: int = 0
    stored_bytes: int = 0
    lag_sum_ms: float = 0.0
    lag_max_ms: int = 0

    def add(self, header: BatchHeader, tiered_ms: int) -> None:
        """Count a batch that was in the tier at a time; without a time of its own it has no lag."""
        is_dated = day_of(header.max_timestamp) != UNKNOWN_DAY
        lag_ms = max(tiered_ms - header.max_timestamp, 0) if is_dated else 0
        self.records += header.records_count
        self.batches += 1
        self.stored_bytes += header.size_in_bytes
        self.lag_sum_ms += lag_ms * header.records_count
        self.lag_max_ms = max(self.lag_max_ms, lag_ms)


Sums = dict[tuple[str, int, str], BatchSum]


def day_of(timestamp_ms: int) -> int:
    """Return the day of a time, counted from 1970, or UNKNOWN_DAY."""
    day = timestamp_ms // DAY_MS
    return day if 0 <= day <= LAST_DAY else UNKNOWN_DAY


def sum_batches(
    each: TierRange, pieces: Iterable[memoryview], tiered_ms: int, sums: Sums, *, continues: bool = False
) -> None:
    """Count the batches of a range, but no markers.

    A range that continues another one leaves the batch on their border to it. Raises BrokenBatchError, and
    CorruptDataError for a header that cannot be believed.
    """
    for batch in walk_batches(pieces, each.size_bytes):
        header = batch.header
        if header.is_control or header.next_offset <= each.start_offset or header.base_offset >= each.end_offset:
            continue
        if continues and header.base_offset < each.start_offset:
            continue
        if not batch.crc_valid:
            raise CorruptDataError(each.object_name, f"the batch of offset {header.base_offset} has a wrong checksum")
        if header.codec >= len(CODEC_NAMES):
            reason = f"the batch of offset {header.base_offset} has the unknown codec {header.codec}"
            raise CorruptDataError(each.object_name, reason)
        key = (each.topic, day_of(header.max_timestamp), CODEC_NAMES[header.codec])
        sums.setdefault(key, BatchSum()).add(header, tiered_ms)


def continued_ranges(splits: Iterable[Split]) -> set[tuple[str, int]]:
    """Return the ranges, by object and first offset, that begin where another one ends: a plan may cut batches."""
    ranges = [each for split in splits for each in split.ranges if isinstance(each, TierRange)]
    ends = {(each.object_name, each.end_offset) for each in ranges}
    return {(each.object_name, each.start_offset) for each in ranges} & ends


def fact_task(
    tier_uri: str, storage: Mapping[str, str], tiered: Mapping[str, int], continued: Collection[tuple[str, int]]
) -> ArrowTask:
    """Return what tasks run: rows with a split as JSON in, rows of FACT_COLUMNS out."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        store = open_tier_store(tier_uri, storage)
        sums: Sums = {}
        for batch in batches:
            for text in batch.column("split").to_pylist():
                ranges = [each for each in Split.from_json(json.loads(text)).ranges if isinstance(each, TierRange)]
                with RangeReadAhead(store, ranges) as ahead:
                    for index, each in enumerate(ranges):
                        continues = (each.object_name, each.start_offset) in continued
                        tiered_ms = tiered[each.object_name]
                        sum_batches(each, ahead.pieces(index), tiered_ms, sums, continues=continues)
        rows = [
            (*key, found.records, found.batches, found.stored_bytes, found.lag_sum_ms, found.lag_max_ms)
            for key, found in sums.items()
        ]
        if rows:
            columns = dict(zip(FACT_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
            yield pa.RecordBatch.from_pydict(columns)

    return run
