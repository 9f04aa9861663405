"""Where sound batches come from: the other replicas of a partition, and the remote tier.

Another broker is asked as a consumer asks, so it answers with what is committed only, whether it leads or follows
(KIP-392). The tier is read through `RemoteReads`. Raises SourceError whatever goes wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from crabka.clients.errors import ClientClosedError, ClientNetworkError, VersionMismatchError
from crabka.clients.fetcher.messages import FetchTarget, fetch_request, read_answers
from crabka.errors import CrabkaError, OperationError, WireError
from crabka.ids import TopicPartition
from crabka.ports import FileRange
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import RecordParts
from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.inter_broker.connections import BrokerConnections
    from crabka.broker.partition.partition import Partition
    from crabka.broker.tiering.read.reader import RemoteReads
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Payload, Threads

# What is fetched at once; one batch may be larger.
FETCH_BYTES: Final = 1024 * 1024
_TIMEOUT_MS: Final = 10_000
_CHANNEL: Final = "healing"
_ANY_EPOCH: Final = -1


class SourceError(CrabkaError):
    """A source has not what is wanted, or cannot be reached."""

    def __init__(self, message: str, *, may_come_back: bool = False) -> None:
        """`may_come_back` of a replica that is in sync, so has the batches, and does not answer now."""
        super().__init__(message)
        self.may_come_back = may_come_back


class RepairSource(Protocol):
    """Another copy of the batches of a partition."""

    @property
    def name(self) -> str:
        """What the log says of it."""

    async def fetch(self, partition: Partition, offset: int, end_offset: int) -> bytes:
        """Return batches from the one that holds `offset` on. Raises SourceError."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """One answer at once."""

    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = FETCH_BYTES
    partition_max_bytes: int = FETCH_BYTES
    read_committed: bool = False


class ReplicaSource:
    """The replica on another broker."""

    def __init__(self, brokers: BrokerConnections, node_id: int, *, is_in_sync: bool = False) -> None:
        self._brokers = brokers
        self._node_id = node_id
        self._is_in_sync = is_in_sync

    @property
    def name(self) -> str:
        """What the log says of it."""
        return f"the replica on broker {self._node_id}"

    async def fetch(self, partition: Partition, offset: int, end_offset: int) -> bytes:
        """Return batches that are committed there, from the one that holds `offset` on."""
        topic_partition = TopicPartition(partition.topic, partition.index)
        ids = {partition.topic: partition.topic_id}
        request = fetch_request([FetchTarget(topic_partition, offset, _ANY_EPOCH)], _Limits(), ids)
        try:
            response = await self._brokers.request(
                self._node_id, ApiKey.FETCH, request.body, _TIMEOUT_MS, channel=_CHANNEL
            )
        except (ClientNetworkError, ClientClosedError, VersionMismatchError, WireError) as error:
            raise SourceError(str(error), may_come_back=self._is_in_sync) from error
        answer = read_answers(response, ids).get(topic_partition)
        code = response.error_code if answer is None else answer.error_code
        if answer is None or code is not ErrorCode.none:
            # What is damaged or gone there as well does not come back by itself.
            is_lost = code in (ErrorCode.corrupt_message, ErrorCode.offset_out_of_range)
            raise SourceError(f"it answers {code.name}", may_come_back=self._is_in_sync and not is_lost)
        if answer.high_watermark < end_offset:
            raise SourceError(
                f"it knows as committed only what lies below {answer.high_watermark}", may_come_back=self._is_in_sync
            )
        return bytes(answer.records)


class TierSource:
    """The copy in the remote tier."""

    def __init__(self, reads: RemoteReads, threads: Threads) -> None:
        self._reads = reads
        self._threads = threads

    @property
    def name(self) -> str:
        """What the log says of it."""
        return "the remote tier"

    async def fetch(self, partition: Partition, offset: int, end_offset: int) -> bytes:
        """Return batches of the tier from the one that holds `offset` on."""
        from crabka.broker.tiering.read.reader import RemoteFetch

        wanted = RemoteFetch(
            partition,
            offset,
            max_bytes=FETCH_BYTES,
            upper_offset=end_offset,
            min_one_batch=True,
            is_committed_only=False,
        )
        try:
            found = await self._reads.fetch(wanted, _TIMEOUT_MS)
        except (RemoteStorageError, OperationError) as error:
            raise SourceError(str(error)) from error
        records = found.records
        parts = records.parts if isinstance(records, RecordParts) else [records]
        try:
            return b"".join([await self._bytes(part) for part in parts])
        except (OSError, EOFError) as error:
            raise SourceError(str(error)) from error

    async def _bytes(self, part: Payload) -> bytes:
        return await self._threads.submit(part.read) if isinstance(part, FileRange) else bytes(part)


class PartitionSources:
    """The sources of each partition, the best first: its leader, others in sync, the tier, and then the rest."""

    def __init__(
        self,
        brokers: BrokerConnections,
        threads: Threads,
        *,
        node_id: int,
        image: Callable[[], MetadataImage],
        remote_reads: Callable[[], RemoteReads | None],
    ) -> None:
        self._brokers = brokers
        self._threads = threads
        self._node_id = node_id
        self._image = image
        self._remote_reads = remote_reads

    def of(self, partition: Partition) -> list[RepairSource]:
        """Return all sources of a partition."""
        topic = self._image().topics.by_id.get(partition.topic_id)
        known = None if topic is None else topic.partitions.get(partition.index)
        if known is None:
            return []
        in_sync = sorted(known.isr, key=lambda each: each != known.leader)
        others = [each for each in known.replicas if each not in known.isr]
        replicas = {
            each: ReplicaSource(self._brokers, each, is_in_sync=each in known.isr)
            for each in (*in_sync, *others)
            if each != self._node_id
        }
        sources: list[RepairSource] = [replicas[each] for each in in_sync if each in replicas]
        reads = self._remote_reads()
        if reads is not None and partition.log.is_tiered:
            sources.append(TierSource(reads, self._threads))
        return sources + [replicas[each] for each in others if each in replicas]
