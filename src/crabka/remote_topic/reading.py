"""Reads the metadata topic from its beginning to its present end, for tools that inspect a tier from outside.

No group, no snapshot, nothing stays open. The next read of a reader continues at its last position. Works with the
topic of Apache Kafka as well.

A position is an offset with the leader epoch of the record before it. After each read the leaders are asked for the end
offsets of the epochs that were read (KIP-320). So records that the log does not have any more are reported, even if the
log has grown past the position since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.clients.errors import RequestTimeoutError
from crabka.clients.fetcher.epoch_ends import epoch_ends
from crabka.clients.fetcher.fetcher import Fetcher, FetcherSettings, OffsetReset
from crabka.clients.fetcher.offsets import EARLIEST, LATEST, list_offsets
from crabka.ids import TopicPartition
from crabka.remote_topic.event_reader import MetadataEvent, MetadataEventError
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import decode_event
from crabka.remote_topic.settings import METADATA_TOPIC

if TYPE_CHECKING:
    from crabka.clients.cluster.cluster import Cluster
    from crabka.clients.fetcher.fetcher import FetchedRecord
    from crabka.remote.segments import TopicIdPartition

_POLL_MS: Final = 1_000
_POLL_RECORDS: Final = 5_000
_PATIENCE_MS: Final = 30_000

OnEvent = Callable[[MetadataEvent], None]
OnProgress = Callable[[int, int], None]
"""Receives the number of records that were read, and of all."""


class UnreadableEvent(NamedTuple):
    """A record of the topic that is not an event."""

    partition: int
    offset: int
    reason: str


class MetadataPosition(NamedTuple):
    """The offset after what was read of a metadata partition, and the leader epoch of the record before it."""

    offset: int
    # -1 if it is not known.
    leader_epoch: int = -1


class MetadataTopicReader:
    """A reader of the topic with its positions."""

    def __init__(self, cluster: Cluster, positions: Mapping[int, MetadataPosition] | None = None) -> None:
        """Begin at the first event, or for some metadata partitions where an earlier read ended."""
        self._cluster = cluster
        self._positions = {partition: position.offset for partition, position in (positions or {}).items()}
        # Where each leader epoch ended that was read and is not verified since, by metadata partition.
        self._seen = {
            partition: {position.leader_epoch: position.offset} for partition, position in (positions or {}).items()
        }
        self.log_starts: dict[int, int] = {}
        # Metadata partitions whose log does not have all that was read: it was truncated, and may have grown again.
        # All that was read of them is void; a new reader has to start from the first event.
        self.outdated: set[int] = set()
        self.unreadable: list[UnreadableEvent] = []

    @property
    def positions(self) -> Mapping[int, MetadataPosition]:
        """Where the next read begins, by metadata partition."""
        return {
            partition: MetadataPosition(offset, max(self._seen.get(partition, ()), default=-1))
            for partition, offset in self._positions.items()
        }

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

        A topic that does not exist has no events. The caller checks `outdated` afterwards. Raises OperationError,
        ClientNetworkError.
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
        self.outdated |= {partition for partition, end in ends.items() if self._positions[partition] > end}
        left = {partition: end for partition, end in ends.items() if self._positions[partition] < end}
        await self._read(left, on_event, on_progress)
        await self._verify(wanted)

    async def _verify(self, partitions: Iterable[int]) -> None:
        """Find out whether the leaders have all that was read; what they have is not asked for again."""
        left = {
            partition: sorted((epoch, end) for epoch, end in seen.items() if epoch >= 0 and end > 0)
            for partition in partitions
            if (seen := self._seen.get(partition))
        }
        while asked := {_place(partition): ends.pop(0) for partition, ends in left.items() if ends}:
            found = await epoch_ends(self._cluster, {place: epoch for place, (epoch, _) in asked.items()})
            self.outdated |= {place.partition for place, seen in asked.items() if not found[place].has(*seen)}
            for place, (epoch, end) in asked.items():
                self._seen[place.partition] = {epoch: end}

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
                self._note_epochs(records)
                for partition in ends:
                    self._positions[partition] = fetcher.position(_place(partition)) or self._positions[partition]
                waited_ms = 0 if records else waited_ms + _POLL_MS
                if waited_ms >= _PATIENCE_MS:
                    raise RequestTimeoutError(f"{METADATA_TOPIC} has {left} more records, and none of them comes")
                on_progress(total - left + len(records), total)

    def _note_epochs(self, records: list[FetchedRecord]) -> None:
        for record in records:
            self._seen.setdefault(record.partition, {})[record.leader_epoch] = record.offset + 1

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
