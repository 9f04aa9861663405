"""What brokers and the metadata topic report of tiered partitions."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.clients.errors import VersionMismatchError
from crabka.clients.fetcher.offsets import OffsetAndTimestamp
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition
from crabka.remote.errors import NotReadyError
from crabka.remote.scrub import TierFault, TierFaultKind, TierHistory
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from crabka.remote_topic.reading import MetadataTopicReader, OnProgress
from crabka.remote_topic.settings import METADATA_TOPIC

if TYPE_CHECKING:
    from crabka.clients.cluster.cluster import Cluster
    from crabka.clients.cluster.metadata import TopicMetadata
    from crabka.remote_topic.event_reader import MetadataEvent

_ASKED_AT_ONCE: Final = 50


@dataclass(slots=True)
class TierView:
    """The metadata of a tier, as far as it was read: of some topics, or of all if none is named."""

    cluster: Cluster
    names: Sequence[str] = ()
    history: TierHistory = field(default_factory=TierHistory)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    _reader: MetadataTopicReader = field(init=False)
    _are_names_checked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._reader = MetadataTopicReader(self.cluster)

    async def read_on(self, on_progress: OnProgress = lambda _done, _total: None) -> None:
        """Read the metadata up to its present end. Raises ConfigError for topics that are not known anywhere.

        A topic that has another history than the one that was read is read once more from its first event on. Raises
        NotReadyError if that changes as well.
        """
        await self.read_topics()
        await self._reader.read_on(self._take, of=self._wanted_partitions(), on_progress=on_progress)
        if self._reader.outdated:
            self.history, self._reader = TierHistory(), MetadataTopicReader(self.cluster)
            await self._reader.read_on(self._take, of=self._wanted_partitions(), on_progress=on_progress)
        if self._reader.outdated:
            raise NotReadyError(f"the history of {METADATA_TOPIC} changes while it is read")
        if not self._are_names_checked:
            self._check_names()
            self._are_names_checked = True

    async def read_topics(self) -> None:
        """Request the topics of the cluster, without segments. Raises ConfigError without metadata."""
        self.topics = dict((await self.cluster.refresh(None)).topics)
        if METADATA_TOPIC not in self.topics:
            raise ConfigError(f"the cluster has no topic {METADATA_TOPIC}: nothing was ever tiered")

    @property
    def topic_ids(self) -> set[uuid.UUID]:
        """The ids of all topics of the cluster."""
        return {topic.topic_id for topic in self.topics.values()}

    @property
    def topic_faults(self) -> list[TierFault]:
        """What is wrong with the metadata topic itself."""
        faults = [
            TierFault(
                kind=TierFaultKind.CUT_METADATA,
                detail=f"{METADATA_TOPIC}-{partition} begins at offset {start}: earlier events are lost",
            )
            for partition, start in sorted(self._reader.log_starts.items())
            if start > 0
        ]
        faults += [
            TierFault(
                kind=TierFaultKind.BAD_EVENT,
                detail=f"{METADATA_TOPIC}-{bad.partition} has no event at offset {bad.offset}: {bad.reason}",
            )
            for bad in self._reader.unreadable
        ]
        return faults

    def finished(self) -> dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]:
        """Return the segments that can be read, by partition."""
        found: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = defaultdict(list)
        for segment in self.history.finished():
            found[segment.topic_id_partition].append(segment)
        return dict(sorted(found.items(), key=lambda item: (item[0].topic, item[0].partition)))

    def live_partitions(self) -> dict[TopicPartition, TopicIdPartition]:
        """Return the partitions of the view that the cluster has, with their ids."""
        chosen = self.names or sorted(self.topics)
        return {
            TopicPartition(name, partition): TopicIdPartition(self.topics[name].topic_id, name, partition)
            for name in chosen
            if name in self.topics
            for partition in sorted(self.topics[name].partitions)
        }

    def _check_names(self) -> None:
        known = {segment.topic_id_partition.topic for segment in self.history.segments.values()}
        unknown = [name for name in self.names if name not in self.topics and name not in known]
        if unknown:
            raise ConfigError(f"neither the cluster nor the tier has a topic {unknown[0]}")

    def _wanted_partitions(self) -> list[TopicIdPartition] | None:
        """Return the partitions whose events are wanted; None for all, which is needed to find deleted topics."""
        if not self.names or any(name not in self.topics for name in self.names):
            return None
        return list(self.live_partitions().values())

    def _take(self, event: MetadataEvent) -> None:
        if not self.names or event.topic_id_partition.topic in self.names:
            self.history.apply(event)


async def offsets_at(
    admin: Admin, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int | None]:
    """Return an offset of each partition; None where the broker does not know this kind or the partition."""
    wanted = list(partitions)
    if not wanted:
        return {}
    try:
        found: Mapping[TopicPartition, OffsetAndTimestamp] = await admin.list_offsets(dict.fromkeys(wanted, timestamp))
    except VersionMismatchError:
        return dict.fromkeys(wanted)
    except OperationError:
        if len(wanted) == 1:
            return dict.fromkeys(wanted)
        # One of them fails the whole request; the others are requested without it.
        halves = (wanted[: len(wanted) // 2], wanted[len(wanted) // 2 :])
        return {key: value for half in halves for key, value in (await offsets_at(admin, half, timestamp)).items()}
    return {partition: answer.offset if answer.offset >= 0 else None for partition, answer in found.items()}


async def topic_settings(admin: Admin, names: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return settings of topics; topics that were deleted since are missing."""

    async def ask(name: str) -> dict[str, str | None] | None:
        try:
            found = await admin.describe_configs(ConfigOwner(ResourceType.TOPIC, name), keys)
        except OperationError:
            return None
        return {key: found[key].value if key in found else None for key in keys}

    answers: dict[str, dict[str, str | None]] = {}
    for start in range(0, len(names), _ASKED_AT_ONCE):
        some = names[start : start + _ASKED_AT_ONCE]
        found = zip(some, await asyncio.gather(*map(ask, some)), strict=True)
        answers |= {name: answer for name, answer in found if answer is not None}
    return answers
