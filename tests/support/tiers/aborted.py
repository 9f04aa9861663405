"""Aborted transactions of segments in a tier."""

from __future__ import annotations

from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.storage.small import NOW_MS, ProducerFields, append, make_batch
from tests.support.tiers.remote_reading import TierWorld


class Transactions:
    """Writes transactional batches into a log, one segment for each call of `roll`."""

    def __init__(self, world: TierWorld) -> None:
        self._world = world
        self._sequences: dict[int, int] = {}

    def write(self, producer_id: int, count: int = 1) -> int:
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        fields = ProducerFields(producer_id, 0, sequence)
        return append(self._world.log, make_batch(count, producer=fields, transactional=True))

    def abort(self, producer_id: int) -> int:
        marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
        batch = build_end_transaction_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)
        return append(self._world.log, batch)

    def roll(self) -> None:
        self._world.log.roll(NOW_MS)
