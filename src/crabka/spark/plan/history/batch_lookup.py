"""Finds the header of the batch that holds an offset: in a segment of the tier that has it, else at the leader."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Final

from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import HEADER_SIZE, BatchHeader, parse_header
from crabka.spark.errors import SegmentVanishedError
from crabka.spark.plan.catalog.segment_objects import in_parallel
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.context import PlanContext
from crabka.spark.plan.survey import PartitionSurvey

_LIMITS: Final = FetcherSettings(max_wait_ms=500, partition_max_bytes=1)
_REQUEST_TIMEOUT_MS: Final = 30_000

BatchPlace = tuple[TopicPartition, int]
"""A partition and an offset."""


class BatchLookup:
    """Looks up batches in the partitions of a survey, many at a time. Raises what stores and brokers raise."""

    def __init__(self, context: PlanContext, partitions: Mapping[TopicPartition, PartitionSurvey]) -> None:
        self._context = context
        self._partitions = partitions

    def find(self, places: Collection[BatchPlace]) -> dict[BatchPlace, BatchHeader]:
        """Return the batches that hold offsets, or that come next after them; places without any are left out."""
        wanted = list(places)
        found = in_parallel(wanted, lambda place: self._find(*place))
        return {place: header for place, header in zip(wanted, found, strict=True) if header is not None}

    def _find(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        objects, part = self._context.objects, self._part_with(partition, offset)
        if objects is not None and part is not None:
            try:
                return objects.batch_at(part.segment, offset)
            except SegmentVanishedError:
                pass  # deleted since the survey: a broker may still have it
        return self._ask_leader(partition, offset)

    def _part_with(self, partition: TopicPartition, offset: int) -> TierPart | None:
        known = self._partitions.get(partition)
        parts = () if known is None else known.parts
        at = bisect_right(parts, offset, key=lambda part: part.start) - 1
        return parts[at] if at >= 0 and offset < parts[at].end else None

    def _ask_leader(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        """Return the first batch that the leader sends from an offset on; None if it has none there."""
        session, options = self._context.session, self._context.options
        if session is None:
            return None
        known = self._partitions.get(partition)
        topic_id = None if known is None else known.id_text
        for attempt in range(1, options.offset_tries + 1):
            try:
                answer = session.fetch(partition, offset, _LIMITS, _REQUEST_TIMEOUT_MS, topic_id=topic_id)
            except (ClientNetworkError, OperationError) as error:
                if attempt == options.offset_tries or (isinstance(error, OperationError) and not error.retriable):
                    raise
            else:
                if len(answer.records) >= HEADER_SIZE:
                    return parse_header(answer.records)
                if answer.error_code is ErrorCode.offset_out_of_range:
                    return None
            if attempt < options.offset_tries:
                time.sleep(options.offset_retry_interval_ms / 1000)
        return None
