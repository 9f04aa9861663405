"""Which transactional batches were aborted, from a transaction index or from the answer to a Fetch (KIP-98).

An index says where the abort marker lies; a Fetch answer does not, so that the marker must be met in the data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

_FARTHEST = (1 << 63) - 1


class AbortedTransactions:
    """The aborted transactions of one partition that may reach into the data.

    Entries are (producer id, first offset, offset of the abort marker). The last may be None: then everything of the
    producer from the first offset to its next abort marker is aborted, and the decoder reports the markers that it
    meets. Such an instance belongs to one pass over the data of one Fetch answer.
    """

    def __init__(self, transactions: Iterable[tuple[int, int, int | None]]) -> None:
        ended: dict[int, list[tuple[int, int]]] = {}
        self._open: dict[int, list[int]] = {}
        for producer_id, first_offset, last_offset in transactions:
            if last_offset is None:
                self._open.setdefault(producer_id, []).append(first_offset)
            else:
                ended.setdefault(producer_id, []).append((first_offset, last_offset))
        self._ended = {producer_id: _merged(spans) for producer_id, spans in ended.items()}

    @property
    def producer_ids(self) -> frozenset[int]:
        """The producers that aborted something; batches of others need no look."""
        return frozenset(self._ended) | frozenset(self._open)

    def covers(self, producer_id: int, base_offset: int) -> bool:
        """Return whether the producer's transactional batch at this offset was aborted."""
        if any(first <= base_offset for first in self._open.get(producer_id, ())):
            return True
        spans = self._ended.get(producer_id, [])
        index = bisect_right(spans, (base_offset, _FARTHEST)) - 1
        return index >= 0 and base_offset <= spans[index][1]

    def awaits_marker(self, producer_id: int) -> bool:
        """Return whether the end of an aborted transaction of the producer is still unknown."""
        return bool(self._open.get(producer_id))

    def end_at_marker(self, producer_id: int, offset: int) -> None:
        """Record an abort marker: it ends the producer's transactions that began before it."""
        begun = self._open.get(producer_id, [])
        ended = [(first, offset) for first in begun if first <= offset]
        if ended:
            self._open[producer_id] = [first for first in begun if first > offset]
            self._ended[producer_id] = _merged([*self._ended.get(producer_id, ()), *ended])


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap as one: then only the last one that begins before an offset counts."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
