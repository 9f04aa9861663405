"""The first batch of a query keeps its start, although Spark asks for the initial offsets again when it runs the batch.

Spark's Kafka source writes the initial offsets into the checkpoint. Sources in Python have no file there, only the end
of each batch is logged. So a partition that begins at its end, which moves, also ends there in the first batch: its
logged end is its initial offset, and the next batch reads on from that. Spark runs and logs a first batch even if it is
empty.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from crabka.ids import TopicPartition

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]


class FirstBatch:
    """Where the first batch begins, while it is the current one."""

    def __init__(self) -> None:
        self._starts: Offsets | None = None
        self._at_end: Collection[TopicPartition] = ()
        self._has_end = False
        self._is_over = False

    @property
    def starts(self) -> Offsets | None:
        """The initial offsets, None before they were asked for."""
        return self._starts

    def begin_at(self, starts: Offsets, at_end: Collection[TopicPartition]) -> None:
        """Keep the initial offsets; `at_end` are the partitions that have nothing to read yet."""
        self._starts, self._at_end = starts, at_end

    def end_of(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return where a batch ends.

        The first one leaves out partitions that are new since it began: the second one reads them from their first
        offsets, as it does all that are new to the query.
        """
        if self._has_end or not self._is_current(starts):
            self._is_over = True
            return ends
        self._has_end = True
        return {p: starts[p] if p in self._at_end else end for p, end in ends.items() if p in starts}

    def start_of(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Return where a batch begins.

        A query that stopped before its first batch was done gets that batch again, with the logged end and with initial
        offsets that were asked for anew. Those may lie after the end. No record is passed over by an empty batch then:
        either the partition began where the batch ends, or all that was before its end is deleted. The next batch
        begins at the logged end and reports if records after that are gone too. A first batch that Spark's Kafka source
        began has its start in a file that is not seen here; so such a batch is reported.
        """
        if not self._is_current(starts):
            return starts
        self._has_end = True
        for partition, start in starts.items():
            if start > ends.get(partition, start):
                logger.warning(
                    "the first batch of %s ends at %d, before its start at %d: nothing is read of it; if another "
                    "source began it, what it was to read is passed over",
                    *(partition, ends[partition], start),
                )
        return {p: min(start, ends[p]) for p, start in starts.items() if p in ends}

    def _is_current(self, starts: Offsets) -> bool:
        return not self._is_over and self._starts is not None and starts == self._starts
