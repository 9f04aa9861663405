"""Applies the committed log to images, in order, on leaders, followers and observers.

A leader replays its appends before it writes them, so that a record that contradicts the metadata never reaches the
log, and publishes the image once they are committed. Other replicas read the log as the high watermark advances. When
leadership ends, uncommitted replays are dropped and the log is read from the last image on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CrabkaError, InvariantError, require
from crabka.metadata.delta import MetadataChanges
from crabka.metadata.difference import ImageDifference
from crabka.metadata.image import MetadataImage
from crabka.metadata.replay import MetadataReplay, Published
from crabka.quorum.log.survey import StoredBatch
from crabka.records.header import iter_headers, parse_header

if TYPE_CHECKING:
    from crabka.quorum.storage import MetadataStorage

Subscriber = Callable[[MetadataChanges, MetadataImage], "asyncio.Future[None] | None"]
"""Receives a change. A returned future delays the answers to the requests that caused the change until it is done."""
# How much of the log is applied at a time: a long log must not block the quorum and the rest of the node.
SLICE_BYTES = 1 << 18


class _Ahead(NamedTuple):
    """The replay of a leader up to an end offset, to be published once that is committed."""

    end_offset: int
    published: Published | None


class MetadataApplier:
    """Owns the image of a replica and its subscribers."""

    def __init__(self, storage: MetadataStorage) -> None:
        self._storage = storage
        self._subscribers: list[Subscriber] = []
        self._ahead: deque[_Ahead] = deque()
        self.image = storage.loaded.replay.image
        snapshot = storage.loaded.snapshot
        # Everything below was replayed, committed or not.
        self._replayed_to = 0 if snapshot is None else snapshot.end_offset
        # Everything below is committed and in `image` (or in the open transaction after it).
        self.applied_to = self._replayed_to
        # Everything below is committed.
        self._committed_to = self._replayed_to
        # Unfinished work of subscribers -> the offset below which all work is done.
        self._unfinished: dict[asyncio.Future[None], int] = {}
        # Called when `settled_to` may have grown, with the error of a subscriber whose work failed.
        self.on_settled: Callable[[BaseException | None], None] = lambda _error: None

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open at the end of the replayed records."""
        return self._storage.loaded.replay.in_transaction

    @property
    def settled_to(self) -> int:
        """Everything below is applied, and subscribers have finished their work for it."""
        return min(self._unfinished.values(), default=self.applied_to)

    @property
    def is_behind(self) -> bool:
        """Whether more is committed than applied; `go_on` applies the next slice."""
        return not self._ahead and self._replayed_to < self._committed_to

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback(delta, image)` after every change, in order; return how to unsubscribe."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def replay_ahead(self, batches: list[bytes]) -> None:
        """Replay records that a leader is about to append. Raises InvariantError if they contradict the metadata."""
        try:
            for batch in batches:
                self._replay(StoredBatch(parse_header(batch), batch))
        except CrabkaError as error:
            raise InvariantError(f"an append contradicts the metadata: {error}") from error
        self._ahead.append(_Ahead(self._replayed_to, self._storage.loaded.replay.publish()))

    def advance(self, high_watermark: int) -> None:
        """Advance the high watermark: publish replayed images, and apply a slice of the rest."""
        self._committed_to = max(self._committed_to, high_watermark)
        while self._ahead and self._ahead[0].end_offset <= high_watermark:
            ahead = self._ahead.popleft()
            before, self.applied_to = self.applied_to, ahead.end_offset
            if ahead.published is not None:
                self._publish(ahead.published.delta, ahead.published.image, before)
        self.go_on()

    def go_on(self) -> None:
        """Apply and publish the next slice of committed records."""
        if not self.is_behind:
            return
        for batch in self._slice():
            self._replay(batch)
        before, self.applied_to = self.applied_to, max(self.applied_to, self._replayed_to)
        published = self._storage.loaded.replay.publish()
        if published is not None:
            self._publish(published.delta, published.image, before)

    def forget_ahead(self) -> None:
        """Drop uncommitted replays: another leader may write other records at their offsets."""
        if not self._ahead:
            return
        self._ahead.clear()
        self._storage.loaded.replay = MetadataReplay(self.image)
        # Records of an open transaction are after the image and are read again.
        self._replayed_to = self.image.offset + 1
        while self._replayed_to < self.applied_to:
            self.go_on()

    def adopt_snapshot(self) -> None:
        """Continue from a snapshot that was installed and loaded."""
        loaded = self._storage.loaded
        require(loaded.snapshot is not None, "a snapshot was installed")
        before, after = self.image, loaded.replay.image
        settled_to = self.applied_to
        self._ahead.clear()
        self._replayed_to = self.applied_to = after.offset + 1
        self._committed_to = max(self._committed_to, self.applied_to)
        self._publish(ImageDifference(before, after), after, settled_to)

    def _replay(self, batch: StoredBatch) -> None:
        # The first batch after a snapshot or an image may begin before its end.
        self._storage.loaded.replay_batch(batch, self._replayed_to)
        self._replayed_to = batch.header.next_offset

    def _slice(self) -> Iterator[StoredBatch]:
        start = self._replayed_to
        data = self._storage.log.read_slice(start, SLICE_BYTES)
        require(bool(data), f"offset {start} is committed and not in the log")
        for position, header in iter_headers(data):
            if header.base_offset >= self._committed_to:
                return
            yield StoredBatch(header, data[position : position + header.size_in_bytes])

    def _publish(self, delta: MetadataChanges, image: MetadataImage, settled_to: int) -> None:
        self.image = image
        for subscriber in list(self._subscribers):
            try:
                work = subscriber(delta, image)
            except Exception as error:
                raise _disagreement(error) from error
            if work is not None and not work.done():
                self._unfinished[work] = settled_to
                work.add_done_callback(self._on_finished)

    def _on_finished(self, work: asyncio.Future[None]) -> None:
        del self._unfinished[work]
        error = None if work.cancelled() else work.exception()
        self.on_settled(None if error is None else _disagreement(error))


def _disagreement(error: BaseException) -> InvariantError:
    """Return the error for a failed subscriber: parts of the node no longer agree on the metadata."""
    return InvariantError(f"a subscriber of the metadata failed: {error!r}")
