"""One partition of the metadata topic as this node knows it: what its events amount to, and up to which offset.

Owns the rule that the offset moves only after the event before it is applied, so that neither a reader nor a snapshot
can believe in more than is there. Changes come from the loop alone; `readable` may be read from any thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from crabka.remote.errors import NotReadyError, RemoteStorageError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager, RlmmCacheDump
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from crabka.remote_topic.event_log import EventBatch
from crabka.remote_topic.event_reader import MetadataEvent, MetadataEventError
from crabka.remote_topic.serde import decode_event, maybe_step

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class EventCounts:
    """What became of the events of a partition since the node started."""

    applied: int = 0
    refused: int = 0
    """Events that the state machine did not allow, such as those of a leader that was replaced."""
    poisonous: int = 0
    """Records that are no events."""


class Capture(NamedTuple):
    """What was known of a partition at one moment."""

    next_offset: int
    leader_epoch: int
    dump: RlmmCacheDump
    view: InmemoryRemoteLogMetadataManager  # where it was known


class MetadataPartition:
    """What is known from the events of one metadata partition."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts = EventCounts()
        # The offset after the last event that is applied, and the leader epoch of that event, -1 if not known.
        self.next_offset = 0
        self.leader_epoch = -1
        # How often another history took the place of the one that was applied.
        self.histories = 0
        # That of the snapshot file; -1 if the file has another history.
        self.snapshot_offset = 0
        self.is_loaded = False
        self.is_assigned = False
        # What the log had when the partition was assigned: before that is reached, others know more than we do.
        self.target: int | None = None
        # The view to read from; None while an answer could be wrong. One attribute, so that threads see it whole.
        self.readable: InmemoryRemoteLogMetadataManager | None = None
        self._view = InmemoryRemoteLogMetadataManager()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        # Whether the leader of the partition has what was applied here. Nothing is ever wrong about nothing.
        self._is_confirmed = False
        self._publishing = 0
        self._refusals: dict[int, RemoteStorageError] = {}
        # The values at the offsets that were applied during a publish.
        self._published: dict[int, bytes] = {}

    @property
    def is_dirty(self) -> bool:
        """Whether the state is newer than the snapshot file."""
        return self.next_offset != self.snapshot_offset

    def load(self, view: InmemoryRemoteLogMetadataManager, next_offset: int, leader_epoch: int) -> None:
        """Load a snapshot, before anything is applied."""
        self._view = view
        self.next_offset = self.snapshot_offset = next_offset
        self.leader_epoch = leader_epoch
        self.is_loaded = True

    def assign(self) -> None:
        """Begin to take events. Reads are refused until the target of `aim` is reached and the state is confirmed."""
        self.is_assigned = True
        self._is_confirmed = False

    def aim(self, end_offset: int) -> None:
        """Set the offset that must be reached before reads are answered; one that was set before is only lowered."""
        self.target = end_offset if self.target is None else min(self.target, end_offset)
        self._refresh()

    def suspend(self) -> None:
        """Refuse reads until a delivery, with or without events, confirms that the log still has what was applied."""
        self._is_confirmed = False
        self._refresh()

    def unassign(self) -> None:
        """Take no more events; what is known stays, for the case that the partition is assigned again."""
        self.is_assigned = False
        self.target = None
        self._refresh()
        self._fail_waiters()

    def start_over(self) -> None:
        """Forget everything: the log has another history than the one that was applied."""
        self.target = None
        self._refresh()
        self._view = InmemoryRemoteLogMetadataManager()
        self.next_offset = 0
        self.leader_epoch = -1
        self.snapshot_offset = -1
        self.histories += 1
        self._refusals.clear()
        self._published.clear()
        self._fail_waiters()

    def capture(self) -> Capture:
        """Return all that is known."""
        return Capture(self.next_offset, self.leader_epoch, self._view.dump(), self._view)

    def note_snapshot(self, capture: Capture) -> None:
        """Note that a capture is in the snapshot file."""
        # After a new start the offset would count events of another history.
        if capture.view is self._view:
            self.snapshot_offset = capture.next_offset

    def apply(self, batch: EventBatch) -> None:
        """Apply events; those that were applied before are skipped."""
        if batch.next_offset >= self.next_offset:
            self.leader_epoch = batch.leader_epoch
        for offset, value in batch.records:
            if offset >= self.next_offset:
                if self._publishing:
                    self._published[offset] = value or b""
                try:
                    self._apply_value(value or b"")
                except (MetadataEventError, RemoteStorageError) as error:
                    self._refuse(offset, error)
                # Not before: a snapshot must not be ahead of what is known.
                self.next_offset = offset + 1
        self.next_offset = max(self.next_offset, batch.next_offset)
        self._is_confirmed = True
        self._refresh()
        self._wake_waiters()

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Remember the outcome of events inside the block: one may be applied before its offset is known."""
        self._publishing += 1
        try:
            yield
        finally:
            self._publishing -= 1
            if not self._publishing:
                self._refusals.clear()
                self._published.clear()

    async def wait_applied(self, offset: int, value: bytes) -> None:
        """Return once an event that was stored at an offset is applied. Only inside `publishing`.

        Raises the reason if it was refused, or NotReadyError if that cannot be known: the partition was taken away, or
        a leader that lacks the event has stored another one at its offset.
        """
        await self.wait_read(offset + 1)
        if self._published.get(offset) != value:
            raise NotReadyError(f"event {offset} of metadata partition {self.number} was replaced by another one")
        if (refusal := self._refusals.get(offset)) is not None:
            raise refusal

    async def wait_read(self, end_offset: int) -> None:
        """Return once all events before an offset are applied or refused. Raises NotReadyError if that cannot be."""
        offset = end_offset - 1
        if offset < self.next_offset:
            return
        if not self.is_assigned:
            raise _taken_away(self.number)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (offset, waiter)
        self._waiters.append(entry)
        try:
            await waiter
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)

    def _apply_value(self, value: bytes) -> None:
        step = maybe_step(value)
        if step is None or not self._view.take_step(*step):
            self._apply_event(decode_event(value))
        self.counts.applied += 1

    def _apply_event(self, event: MetadataEvent) -> None:
        if isinstance(event, RemoteLogSegmentMetadata):
            self._view.add_remote_log_segment_metadata(event)
        elif isinstance(event, RemoteLogSegmentMetadataUpdate):
            self._view.update_remote_log_segment_metadata(event)
        else:
            self._view.put_remote_partition_delete_metadata(event)

    def _refuse(self, offset: int, error: MetadataEventError | RemoteStorageError) -> None:
        if isinstance(error, MetadataEventError):
            self.counts.poisonous += 1
            logger.warning("record %d of metadata partition %d is skipped: %s", offset, self.number, error)
            return
        self.counts.refused += 1
        logger.info("event %d of metadata partition %d is refused: %s", offset, self.number, error)
        if self._publishing:
            self._refusals[offset] = error

    def _refresh(self) -> None:
        is_complete = self.is_assigned and self.target is not None and self.next_offset >= self.target
        is_current = self._is_confirmed or not self.next_offset
        self.readable = self._view if is_complete and is_current else None

    def _wake_waiters(self) -> None:
        if not self._waiters:
            return
        due = [entry for entry in self._waiters if entry[0] < self.next_offset]
        self._waiters = [entry for entry in self._waiters if entry[0] >= self.next_offset]
        for _, waiter in due:
            if not waiter.done():
                waiter.set_result(None)

    def _fail_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(_taken_away(self.number))


def _taken_away(number: int) -> NotReadyError:
    return NotReadyError(f"metadata partition {number} is not read here; the event may be stored all the same")
