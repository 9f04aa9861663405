"""A partition whose log is partly in a tier in memory, read by what a node reads with; time is virtual."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Self, TypeVar

from crabka.broker.partition.partition import Partition
from crabka.broker.tiering.limits import ByteRateQuota
from crabka.broker.tiering.read.build import build_remote_reads
from crabka.broker.tiering.read.chunk_cache import ChunkCache
from crabka.broker.tiering.read.healing.verified_parts import VerifiedParts
from crabka.broker.tiering.read.index_cache import IndexCacheLimits, RemoteIndexCache
from crabka.broker.tiering.read.index_files import IndexFiles
from crabka.broker.tiering.read.pool import ReaderPool
from crabka.broker.tiering.read.reader import RemoteFetch, RemoteReads, RemoteRecords
from crabka.broker.tiering.read.tools import ReadTools
from crabka.broker.tiering.stats import TierStats
from crabka.broker.tiering.tools import TierTools
from crabka.config.topic import TopicConfig
from crabka.formats.file_names import REMOTE_INDEX_CACHE
from crabka.log.partition.partition_log import PartitionLog
from crabka.ports import FileRange, FileSystem, Payload, Threads
from crabka.protocol.hot import RecordParts
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    LogSegmentData,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.testing import InlineThreads, SimulatedClock, VirtualTimeLoop
from crabka.testing.faulty_storage import FaultyStorageManager
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.support.nodes.sim_node import SimNode, batch
from tests.support.storage.small import LOG_DIR, NOW_MS, TOPIC_PARTITION, make_context, open_test_log
from tests.support.tiers.metadata import tier_metadata

P = ParamSpec("P")
T = TypeVar("T")

TIERED_TOPIC_ID = uuid.UUID(int=0x7E1D)
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
NO_LIMIT = 1 << 62
SMALL_CHUNK_BYTES = 1024


class HeldThreads:
    """Threads whose jobs run when a test lets them: a store that is slow, or hangs."""

    def __init__(self) -> None:
        self.waiting: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []
        self.is_closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Keep a job."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    async def wait_submitted(self) -> None:
        """Let all jobs run."""
        self.release()

    def close(self, *, wait: bool = True) -> None:
        """Nothing runs any more."""
        self.is_closed = True

    def release(self, count: int = 1 << 30) -> int:
        """Run the oldest jobs; return how many there were."""
        jobs, self.waiting = self.waiting[:count], self.waiting[count:]
        for future, job in jobs:
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001 - it belongs to the one who waits
                future.set_exception(error)
        return len(jobs)


class TierWriter:
    """Copies segments to a tier in one go."""

    def __init__(self, storage: RemoteStorageManager, rlmm: InmemoryRemoteLogMetadataManager) -> None:
        self._storage = storage
        self._rlmm = rlmm
        self._segment_count = 0

    def tier(
        self, log: PartitionLog, partition: TopicIdPartition, *, limit: int = 1 << 30
    ) -> list[RemoteLogSegmentMetadata]:
        """Copy the sealed segments that the tier does not have yet, as a leader does."""
        log.flush()
        copied = []
        for segment in log.tiering.tierable_segments(
            log.tiering.highest_remote_offset + 1, log.last_stable_offset, limit=limit
        ):
            assert log.tiering.prepare_for_copy(segment)
            self._segment_count += 1
            metadata = RemoteLogSegmentMetadata(
                segment_id=RemoteLogSegmentId(partition, uuid.UUID(int=self._segment_count)),
                start_offset=segment.base_offset,
                end_offset=segment.end_offset,
                max_timestamp_ms=segment.max_timestamp_ms,
                broker_id=1,
                event_timestamp_ms=NOW_MS,
                segment_size_bytes=segment.size_bytes,
                leader_epochs=log.leader_epochs.lineage.between(segment.base_offset, segment.end_offset),
                txn_index_empty=segment.txn_index_path is None,
            )
            data = LogSegmentData(
                log_segment=segment.log_path,
                offset_index=segment.offset_index_path,
                time_index=segment.time_index_path,
                producer_snapshot_index=segment.producer_snapshot_path,
                transaction_index=segment.txn_index_path,
                leader_epoch_index=log.leader_epochs.encode(segment.end_offset + 1),
            )
            self._rlmm.add_remote_log_segment_metadata(metadata)
            self._storage.copy_log_segment_data(metadata, data)
            update = RemoteLogSegmentMetadataUpdate(
                segment_id=metadata.segment_id, event_timestamp_ms=NOW_MS, state=FINISHED, broker_id=1
            )
            self._rlmm.update_remote_log_segment_metadata(update)
            copied.append(metadata.with_update(update))
            log.tiering.note_remote_offset(segment.end_offset)
        return copied


def drop_local(log: PartitionLog) -> None:
    """Let everything that is in the tier leave the disk."""
    while log.retention.drop_oldest_tiered(1 << 62) is not None:
        pass


class TierWorld:
    """A log of `orders-0` with small segments, a tier, and the reader of a node."""

    def __init__(
        self,
        config: TopicConfig | None = None,
        *,
        storage: Callable[[FileSystem], RemoteStorageManager] = InmemoryRemoteStorage,
        threads: Callable[[VirtualTimeLoop], Threads] = InlineThreads,
        chunk_bytes: int = SMALL_CHUNK_BYTES,
        cache_bytes: int = 64 * SMALL_CHUNK_BYTES,
        max_pending: int = 100,
        bytes_per_second: int = NO_LIMIT,
        loop: VirtualTimeLoop | None = None,
        topic_id: uuid.UUID = TIERED_TOPIC_ID,
    ) -> None:
        """With a loop of the caller everything but `run` and its callers may be used."""
        self.loop = VirtualTimeLoop() if loop is None else loop
        self._owns_loop = loop is None
        self.topic_id_partition = TopicIdPartition(topic_id, *TOPIC_PARTITION)
        self.clock = SimulatedClock(self.loop)
        self.context = make_context()
        self.fs = self.context.fs
        config = config or TopicConfig(
            internal_segment_bytes=2000, index_interval_bytes=200, remote_storage_enable=True, local_retention_ms=0
        )
        self.log: PartitionLog = open_test_log(self.context, config)
        writer: Any = None
        self.partition = Partition(*TOPIC_PARTITION, topic_id, self.log, writer)
        self.storage = storage(self.fs)
        self.rlmm = InmemoryRemoteLogMetadataManager()
        self.stats = TierStats()
        self.threads = threads(self.loop)
        self.pool = ReaderPool(lambda _size: self.threads, size=lambda: 4, max_pending=max_pending)
        self.limits = IndexCacheLimits(1 << 20, 900_000)
        quota = ByteRateQuota(lambda: bytes_per_second, sample_count=11, sample_ms=1000)
        self.verified_ttl_ms = 600_000
        self.verified = VerifiedParts(self.clock, lambda: self.verified_ttl_ms)
        self.chunks = ChunkCache(
            self.storage,
            self.pool,
            capacity_bytes=cache_bytes,
            chunk_bytes=chunk_bytes,
            on_downloaded=lambda size: quota.record(size, self.clock.monotonic_ms()),
            on_dropped=self.verified.forget,
        )
        files = IndexFiles(self.fs, LOG_DIR, self.storage)
        self.indexes = RemoteIndexCache(files, self.pool, self.clock, lambda: self.limits)
        self.tools = ReadTools(
            self.storage,
            self.rlmm,
            self.pool,
            chunks=self.chunks,
            indexes=self.indexes,
            clock=self.clock,
            stats=self.stats,
            verified=self.verified,
        )
        self.reads = RemoteReads(self.tools, fetch_quota=quota)
        self._writer = TierWriter(self.storage, self.rlmm)
        self.fs.makedirs(f"{LOG_DIR}/{REMOTE_INDEX_CACHE}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.reads.close()
        if self._owns_loop:
            self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(coroutine)

    # -- the tier ------------------------------------------------------------------------------------------------

    def tier(self, *, limit: int = 1 << 30) -> list[RemoteLogSegmentMetadata]:
        """Copy the sealed segments that the tier does not have yet, as a leader does."""
        return self._writer.tier(self.log, self.topic_id_partition, limit=limit)

    def drop_local(self) -> None:
        """Let everything that is in the tier leave the disk."""
        drop_local(self.log)

    # -- reading -------------------------------------------------------------------------------------------------

    def wanted(self, offset: int, **limits: Any) -> RemoteFetch:
        """Return what a consumer wants that may read everything, by default."""
        defaults = {
            "max_bytes": 1 << 20,
            "upper_offset": self.log.high_watermark,
            "min_one_batch": True,
            "is_committed_only": False,
        }
        return RemoteFetch(self.partition, offset, **{**defaults, **limits})

    def fetch(self, offset: int, *, wait_ms: int = 500, **limits: Any) -> RemoteRecords:
        """Fetch from the tier."""
        return self.run(self.reads.fetch(self.wanted(offset, **limits), wait_ms))

    def fetch_bytes(self, offset: int, **limits: Any) -> bytes:
        """Fetch from the tier and return the batches."""
        return joined(self.fetch(offset, **limits).records)


def joined(records: Payload | RecordParts) -> bytes:
    """Return records as they go over the wire."""
    parts = records.parts if isinstance(records, RecordParts) else [records]
    return b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)


def memory_tier(fs: FileSystem) -> RemoteStorageManager:
    """Return a tier that is no directory."""
    return InmemoryRemoteStorage(fs)


def faulty_tier(fs: FileSystem) -> RemoteStorageManager:
    """Return a tier that fails on demand."""
    return FaultyStorageManager(InmemoryRemoteStorage(fs))


def directory_tier(fs: FileSystem) -> RemoteStorageManager:
    """Return a tier that is a directory of the same disk."""
    fs.makedirs("/tier")
    return LocalTieredStorage(fs, "/tier")


# A node that has a tier; which one, a test says.
TIERED_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "rsm.config.dir": "/shared",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
}


def tiered_topic(node: SimNode, name: str, partitions: int = 1, count: int = 12) -> list[bytes]:
    """Create a tiered topic with small segments, a few batches in each; return the values of a partition."""
    configs = {
        "remote_storage_enable": "true",
        "local_retention_ms": "1",
        "internal_segment_bytes": "1000",
        "index_interval_bytes": "100",
    }
    node.create_topic(name, partitions, **configs)
    values = [b"%d " % number * 80 for number in range(count)]
    for index in range(partitions):
        for value in values:
            node.produce(name, batch(value), partition=index)
    return values


class NodeTier:
    """A tier for a node in the simulation, with what the node reads it by."""

    def __init__(self, node: SimNode, storage: Callable[[FileSystem], RemoteStorageManager] = memory_tier) -> None:
        self._node = node
        self.storage = storage(node.fs)
        self.rlmm = InmemoryRemoteLogMetadataManager()
        self.stats = TierStats()
        self._writer = TierWriter(self.storage, self.rlmm)
        context = node.context
        tools = TierTools(
            broker_id=1,
            runtime=node.runtime,
            config=lambda: context.config,
            storage=self.storage,
            metadata=tier_metadata(self.rlmm, node.runtime.threads),
            stats=self.stats,
            flush_logs=lambda: context.logs.flush_dirty(node.clock.now_ms()),
            save_log_starts=context.logs.save_log_starts,
        )
        self.reads = context.remote_reads = build_remote_reads(tools)
        node.run(self.reads.open())

    def tier(self, topic: str, partition: int = 0) -> int:
        """Move all sealed segments of a partition to the tier; return where its local log begins now."""
        hosted = self._node.context.partitions.by_name(topic, partition)
        self._writer.tier(hosted.log, TopicIdPartition(hosted.topic_id, topic, partition))
        drop_local(hosted.log)
        return hosted.log.local_log_start_offset

    def hold(self) -> HeldThreads:
        """Let the store answer from now on only on command."""
        threads = HeldThreads()
        self.reads._tools.pool._threads = threads
        return threads

    def close(self) -> None:
        """Let the node be without a tier again."""
        self.reads.close()
        self._node.context.remote_reads = None
