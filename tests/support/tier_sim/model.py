"""What was written, what was acknowledged, and what of it has to be readable.

A batch is known by its leader epoch and first offset: a leader writes an offset once in an epoch. Which batches make
up a log is shown by its leader epochs. An unclean election may lose what was acknowledged; then only what the new
leader shares with the old history, or has on its disk, is owed to consumers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, NamedTuple

from crabka.records.header import iter_headers, parse_header

if TYPE_CHECKING:
    from crabka.log.partition.partition_log import PartitionLog


class ViolationError(AssertionError):
    """Something that must not happen has happened."""


class WrittenBatch(NamedTuple):
    """A batch as a leader wrote it."""

    epoch: int
    base_offset: int
    last_offset: int
    newest_ms: int
    producer_id: int
    data: bytes

    @property
    def key(self) -> tuple[int, int]:
        """What it is known by."""
        return self.epoch, self.base_offset


def batches_in(content: bytes) -> Iterable[WrittenBatch]:
    """Yield the whole batches of some bytes of a log."""
    for position, header in iter_headers(content):
        data = bytes(content[position : position + header.size_in_bytes])
        if len(data) == header.size_in_bytes:
            yield written(data)


def written(data: bytes) -> WrittenBatch:
    """Return a batch by its bytes."""
    header = parse_header(data)
    return WrittenBatch(
        header.partition_leader_epoch,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.producer_id,
        data,
    )


class TopicModel:
    """All that was written to one topic of the name."""

    def __init__(self) -> None:
        self.written: dict[tuple[int, int], WrittenBatch] = {}
        # What lay below a high watermark once; only that may be in the tier.
        self.committed: set[tuple[int, int]] = set()
        # Producer and first offset of aborted transactions, by the marker that ends them.
        self.aborted: dict[tuple[int, int], tuple[int, int]] = {}
        # What consumers can rely on now, by offset.
        self.history: list[WrittenBatch] = []
        self.owed: set[tuple[int, int]] = set()
        # What a leader was allowed to delete; it may come back after an unclean election, but is not required.
        self._deleted: set[tuple[int, int]] = set()

    @property
    def end_offset(self) -> int:
        """Where the acknowledged history ends."""
        return self.history[-1].last_offset + 1 if self.history else 0

    def note_written(self, batch: WrittenBatch) -> None:
        """Learn of an append of a leader."""
        if batch.key in self.written:
            raise ViolationError(f"epoch {batch.epoch} writes offset {batch.base_offset} twice")
        self.written[batch.key] = batch

    def lineage(self, log: PartitionLog, upper_offset: int | None = None) -> list[WrittenBatch]:
        """Return what a log consists of from its start on, wherever that is stored."""
        upper = log.log_end_offset if upper_offset is None else upper_offset
        start, epochs = log.log_start_offset, log.leader_epochs
        return sorted(
            (
                batch
                for batch in self.written.values()
                if batch.last_offset >= start
                and batch.last_offset < upper
                and epochs.lineage.epoch_at(max(batch.base_offset, start)) == batch.epoch
            ),
            key=lambda batch: batch.base_offset,
        )

    def commit(self, log: PartitionLog) -> None:
        """Take over how far the high watermark of the leader is."""
        end = self.end_offset
        if log.high_watermark <= end:
            return
        fresh = [batch for batch in self.lineage(log, log.high_watermark) if batch.base_offset >= end]
        self.history += fresh
        self.committed |= {batch.key for batch in fresh}
        self.owed |= {batch.key for batch in fresh}

    def elect(self, log: PartitionLog) -> None:
        """Check that a replica that is elected from the ISR has all that was acknowledged."""
        own = {batch.key for batch in self.lineage(log)}
        missing = [
            batch.key
            for batch in self.history
            if batch.key in self.owed and batch.key not in own and batch.last_offset >= log.log_start_offset
        ]
        if missing:
            raise ViolationError(f"a replica in sync lacks {missing}")

    def elect_uncleanly(self, log: PartitionLog) -> None:
        """Let a replica decide what counts."""
        own = self.lineage(log)
        local = {batch.key for batch in own if batch.last_offset >= log.local_log_start_offset}
        old = {batch.key for batch in self.history}
        self.owed = (self.owed & old & {batch.key for batch in own}) | (local - self._deleted)
        self.history = own
        self.committed |= local

    def let_go(self, keys: Iterable[tuple[int, int]]) -> None:
        """Let batches be deleted."""
        self._deleted.update(keys)
        self.owed -= self._deleted

    def is_owed(self, offset: int) -> bool:
        """Return whether consumers have a right to the record at an offset."""
        return any(
            batch.base_offset <= offset <= batch.last_offset and batch.key in self.owed for batch in self.history
        )

    def aborted_from(self, log: PartitionLog, start_offset: int) -> set[tuple[int, int]]:
        """Return the aborted transactions of a log that begin at an offset or behind, up to its high watermark."""
        ended = [
            self.aborted[batch.key] for batch in self.lineage(log, log.high_watermark) if batch.key in self.aborted
        ]
        return {each for each in ended if each[1] >= start_offset}

    def check_batch(self, batch: WrittenBatch, history: Container[tuple[int, int]]) -> None:
        """Check something that a consumer was given: written so, and in the history of the log that was read."""
        if self.written.get(batch.key) != batch:
            raise ViolationError(f"offset {batch.base_offset} of epoch {batch.epoch} is not as it was written")
        if batch.key not in history:
            raise ViolationError(f"offset {batch.base_offset} of epoch {batch.epoch} is of another history")
