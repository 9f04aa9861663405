"""Which transactional batches were aborted, from a transaction index or from the answer to a Fetch (KIP-98).

An index tells where the abort marker lies; a Fetch answer does not, so that the marker must be met in the data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

_OPEN = (1 << 63) - 1


class AbortedTransactions:
    """The aborted transactions of one partition that may reach into the data.

    Entries are (producer id, first offset, offset of the abort marker). The last may be None: then everything of the
    producer from the first offset to its next abort marker is aborted, and the decoder tells of the markers that it
    meets. Such an instance belongs to one pass over the data of one Fetch answer.
    """

    def __init__(self, transactions: Iterable[tuple[int, int, int | None]]) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first_offset, last_offset in transactions:
            last = _OPEN if last_offset is None else last_offset
            self._spans.setdefault(producer_id, []).append((first_offset, last))
        for spans in self._spans.values():
            spans.sort()

    @property
    def producer_ids(self) -> frozenset[int]:
        """The producers that aborted something; batches of others need no look."""
        return frozenset(self._spans)

    def covers(self, producer_id: int, base_offset: int) -> bool:
        """Return whether the producer's transactional batch at this offset was aborted."""
        spans = self._spans.get(producer_id, [])
        index = bisect_right(spans, (base_offset, _OPEN)) - 1
        return index >= 0 and base_offset <= spans[index][1]

    def awaits_marker(self, producer_id: int) -> bool:
        """Return whether the end of an aborted transaction of the producer is still unknown."""
        return any(last == _OPEN for _, last in self._spans.get(producer_id, []))

    def end_at_marker(self, producer_id: int, offset: int) -> None:
        """Take note of an abort marker: it ends the producer's transactions that began before it."""
        spans = self._spans.get(producer_id, [])
        spans[:] = [(first, offset if last == _OPEN and first <= offset else last) for first, last in spans]
