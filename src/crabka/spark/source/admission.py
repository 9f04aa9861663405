"""How many new offsets a micro-batch takes: Spark's limits on rows, distributed over partitions. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from crabka.ids import TopicPartition

Offsets = Mapping[TopicPartition, int]
_MAX_LONG = (1 << 63) - 1


def new_records(starts: Offsets, latest: Offsets) -> int:
    """Return how many offsets lie between; those of a partition that is new count from zero."""
    return sum(end - starts.get(partition, 0) for partition, end in latest.items())


def limited(limit: int, starts: Offsets, first: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return where a batch of about `limit` offsets ends; each partition has a share in proportion to its new offsets.

    `first` has the first offsets of partitions that are new. As in Spark's Kafka source, small shares are rounded up,
    so that no partition starves.
    """
    begin = {p: starts.get(p, first.get(p)) for p in latest}
    sizes = {p: latest[p] - start for p, start in begin.items() if start is not None and latest[p] > start}
    total = sum(sizes.values())
    if total < 1:
        return dict(latest)
    ends: dict[TopicPartition, int] = {}
    for partition, end in latest.items():
        start, size = begin[partition], sizes.get(partition)
        if start is None or size is None:
            ends[partition] = end
            continue
        share = limit * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(end, start + step, _MAX_LONG)
    return ends


class TriggerDelay:
    """Delays a batch until enough offsets are available or the maximum delay has passed."""

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        # Long ago, so that the first batch of a query never waits.
        self._last_trigger_ms = -max_delay_ms

    def holds_back(self, wanted: int, available: int, now_ms: int) -> bool:
        """Return whether to wait for more."""
        if available < wanted and now_ms - self._last_trigger_ms < self._max_delay_ms:
            return True
        self._last_trigger_ms = now_ms
        return False
