"""The outcome of transactions while a log is cleaned: which batches are aborted, which markers are still needed.

A marker is needed as long as a batch of its transaction may be in the log. So it goes in a later cleaning than the
data, and only after its delete horizon. Follows Kafka's CleanedTransactionMetadata; knows no files.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from crabka.formats.transaction_index import AbortedTransaction
from crabka.records.control import EndTransactionMarker
from crabka.records.header import BatchHeader


class CleanedTransactions:
    """Sees all batches of a log in the order of their offsets, none of an undecided transaction."""

    __slots__ = ("_aborted", "_committed", "_ongoing", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # Aborted transactions that have not begun yet, by first offset.
        self._aborted = [(entry.first_offset, entry) for entry in set(aborted)]
        heapq.heapify(self._aborted)
        # Producer -> its aborted transaction, and whether a batch of it was seen.
        self._ongoing: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        # Aborted transactions whose markers stay for the sake of data, for the transaction index of the new segment.
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take in a data batch; return whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._ongoing.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        self._ongoing[header.producer_id] = (ongoing[0], True)
        return True

    def is_marker_unneeded(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Take in an end marker, None for a batch already emptied; return whether no data of it was seen."""
        self._begin_up_to(header.last_offset)
        if marker is None:
            return True
        if marker.committed:
            needed = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not needed
        entry, seen = self._ongoing.pop(header.producer_id, (None, False))
        if entry is not None and seen:
            self.kept.append(entry)
            return False
        return True

    def take_kept(self) -> list[AbortedTransaction]:
        """Return what was kept since the last call."""
        kept, self.kept = self.kept, []
        return kept

    def _begin_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            entry = heapq.heappop(self._aborted)[1]
            self._ongoing.setdefault(entry.producer_id, (entry, False))
