"""Reads the metadata topic from its beginning to where it ends now, for tools that look at a tier from outside.

No group, no snapshot, nothing stays open. The same reader can be asked again and goes on where it stopped. Works with
the topic of Apache Kafka as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.clients.errors import RequestTimeoutError
from crabka.clients.fetcher import Fetcher, FetcherSettings, OffsetReset
from crabka.clients.offsets import EARLIEST, LATEST, list_offsets
from crabka.ids import TopicPartition
from crabka.remote_topic.event_reader import MetadataEvent, MetadataEventError
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import decode_event
from crabka.remote_topic.settings import METADATA_TOPIC

if TYPE_CHECKING:
    from crabka.clients.cluster import Cluster
    from crabka.clients.fetcher import FetchedRecord
    from crabka.remote.segments import TopicIdPartition

_POLL_MS: Final = 1_000
_POLL_RECORDS: Final = 5_000
_PATIENCE_MS: Final = 30_000

OnEvent = Callable[[MetadataEvent], None]
OnProgress = Callable[[int, int], None]
"""Is told how many records came, and how many there are."""


class UnreadableEvent(NamedTuple):
    """A record of the topic that is no event."""

    partition: int
    offset: int
    reason: str


class MetadataTopicReader:
    """What was read of the topic so far."""

    def __init__(self, cluster: Cluster, positions: Mapping[int, int] | None = None) -> None:
        """Begin at the first event, or for some metadata partitions at the offsets that somebody read up to before."""
        self._cluster = cluster
        self._positions: dict[int, int] = dict(positions or {})
        self.log_starts: dict[int, int] = {}
        # Metadata partitions that ended before the position when they were last looked at: what was read of them before
        # may be no part of the log any more.
        self.shorter: set[int] = set()
        self.unreadable: list[UnreadableEvent] = []

    @property
    def positions(self) -> Mapping[int, int]:
        """The offset behind what was read, by metadata partition."""
        return self._positions

    async def partition_count(self) -> int | None:
        """Return how many partitions the topic has, None if there is no such topic."""
        # All topics, since asking for one by name may create it.
        topic = (await self._cluster.refresh(None)).topics.get(METADATA_TOPIC)
        return None if topic is None else len(topic.partitions)

    async def read_on(
        self,
        on_event: OnEvent,
        *,
        of: Collection[TopicIdPartition] | None = None,
        on_progress: OnProgress = lambda _done, _total: None,
    ) -> None:
        """Read from where the last call ended to the present end; with `of` only what holds events of those partitions.

        A topic that does not exist has no events. Raises OperationError, ClientNetworkError.
        """
        count = await self.partition_count()
        if count is None:
            return
        wanted = range(count) if of is None else sorted({metadata_partition_for(each, count) for each in of})
        ends = await self._offsets(wanted, LATEST)
        fresh = [partition for partition in wanted if partition not in self._positions]
        self.log_starts |= await self._offsets(fresh, EARLIEST)
        for partition in fresh:
            self._positions[partition] = self.log_starts[partition]
        self.shorter = {partition for partition, end in ends.items() if self._positions[partition] > end}
        left = {partition: end for partition, end in ends.items() if self._positions[partition] < end}
        await self._read(left, on_event, on_progress)

    async def _read(self, ends: Mapping[int, int], on_event: OnEvent, on_progress: OnProgress) -> None:
        total = sum(end - self._positions[partition] for partition, end in ends.items())
        on_progress(0, total)
        waited_ms = 0
        settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST)
        async with Fetcher(self._cluster, settings) as fetcher:
            fetcher.assign({_place(partition): self._positions[partition] for partition in ends})
            while left := sum(max(end - self._positions[partition], 0) for partition, end in ends.items()):
                records = await fetcher.poll(_POLL_MS, _POLL_RECORDS)
                self._take(records, on_event)
                for partition in ends:
                    self._positions[partition] = fetcher.position(_place(partition)) or self._positions[partition]
                waited_ms = 0 if records else waited_ms + _POLL_MS
                if waited_ms >= _PATIENCE_MS:
                    raise RequestTimeoutError(f"{METADATA_TOPIC} has {left} more records, and none of them comes")
                on_progress(total - left + len(records), total)

    def _take(self, records: list[FetchedRecord], on_event: OnEvent) -> None:
        for record in records:
            try:
                event = decode_event(record.value or b"")
            except MetadataEventError as error:
                self.unreadable.append(UnreadableEvent(record.partition, record.offset, str(error)))
            else:
                on_event(event)

    async def _offsets(self, partitions: Collection[int], timestamp: int) -> dict[int, int]:
        if not partitions:
            return {}
        found = await list_offsets(self._cluster, dict.fromkeys(map(_place, partitions), timestamp))
        return {place.partition: answer.offset for place, answer in found.items()}


def _place(partition: int) -> TopicPartition:
    return TopicPartition(METADATA_TOPIC, partition)
