"""A follower on a simulated machine, with the real fetchers, logs and publisher, and leaders that a test controls.

A leader serves real logs through a scripted broker: it knows sessions and epochs, and nothing of high watermarks but
what the test tells it. Time is virtual.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.broker.fetch.sessions import FetchSessionCache, SessionTarget
from crabka.broker.lifecycle.metadata_publisher import MetadataPublisher
from crabka.broker.partition.partition import Partition
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.broker.replication.fetchers import ReplicaFetchers
from crabka.broker.replication.truncation import diverging_epoch
from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.broker.tiering.read.reader import RemoteReads
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.config.topic import TOPIC_KEYS, TopicConfig, parse_topic_overrides, topic_fields
from crabka.errors import OperationError
from crabka.ids import DIRECTORY_UNASSIGNED, TopicPartition
from crabka.log.dirs.log_manager import LogManager
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.metadata.difference import ImageDifference
from crabka.metadata.image import MetadataImage
from crabka.ports import FileSystem
from crabka.protocol.apis import ApiKey, ms
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime.task_scope import TaskScope
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from tests.support.clients.scripted_broker import Later, ReceivedRequest, ScriptedBroker
from tests.support.quorum.images import cluster, partition_of, topic_id_of, with_partition, with_partitions
from tests.support.storage.small import make_context

PORT = 9092
FOLLOWER = 2
TOPIC = "t"
# Longer than the backoff of a follower and the wait of its fetches.
SETTLE_MS = 3000


class ToyLeader:
    """Leads partitions from logs of its own and answers Fetch, ListOffsets and OffsetForLeaderEpoch."""

    def __init__(self, node_id: int, *, max_sessions: int = 10) -> None:
        self.node_id = node_id
        self.broker = ScriptedBroker()
        self.broker.answers[ApiKey.FETCH] = self._fetch
        self.broker.answers[ApiKey.LIST_OFFSETS] = self._list_offsets
        self.broker.answers[ApiKey.OFFSET_FOR_LEADER_EPOCH] = self._epoch_ends
        self.sessions = FetchSessionCache(max_sessions=max_sessions, rng=random.Random(node_id))
        self.logs: dict[tuple[uuid.UUID, int], PartitionLog] = {}
        self.leader_epoch = 5
        # What to answer for a partition instead, by index.
        self.errors: dict[int, ErrorCode] = {}
        self.high_watermark: int | None = None

    def lead(self, index: int = 0, topic: str = TOPIC) -> PartitionLog:
        """Return a new log to lead."""
        context = make_context()
        path = f"/data/{topic}-{index}"
        options = OpenOptions(clean=True)
        log = open_log(context, path, TopicPartition(topic, index), TopicConfig(), options)
        self.logs[topic_id_of(topic), index] = log
        return log

    @property
    def fetches(self) -> list[ReceivedRequest]:
        """The fetches so far."""
        return self.broker.asked(ApiKey.FETCH)

    def _fetch(self, request: ReceivedRequest) -> Any:
        types = request.types
        try:
            plan = self.sessions.resolve(request.body, request.version, 0)
        except OperationError as error:
            return types.message(throttle_time=0, error_code=error.error_code, session_id=0, responses=())
        topics: dict[uuid.UUID, list[Any]] = {}
        is_idle = True
        for target in plan.targets:
            row = self._row(types, target)
            reported = (target.known_high_watermark, target.known_log_start)
            says_nothing = not row.records and row.error_code is ErrorCode.none and row.diverging_epoch.epoch < 0
            if plan.incremental and says_nothing and reported == (row.high_watermark, row.log_start_offset):
                continue
            is_idle = False
            target.known_high_watermark, target.known_log_start = row.high_watermark, row.log_start_offset
            topics.setdefault(target.topic_id, []).append(row)
        rows = [types.new("FetchableTopicResponse", topic_id=key, partitions=value) for key, value in topics.items()]
        answer = types.message(throttle_time=0, error_code=ErrorCode.none, session_id=plan.session_id, responses=rows)
        return Later(ms(request.body.max_wait), answer) if is_idle else answer

    def _row(self, types: Any, target: SessionTarget) -> Any:
        log = self.logs.get((target.topic_id, target.index))
        fields: dict[str, Any] = {"high_watermark": -1, "log_start_offset": -1, "records": b""}
        code = self.errors.get(target.index, ErrorCode.none)
        try:
            if log is None:
                raise OperationError(ErrorCode.unknown_topic_id)
            if target.leader_epoch != self.leader_epoch:
                fenced = target.leader_epoch < self.leader_epoch
                raise OperationError(ErrorCode.fenced_leader_epoch if fenced else ErrorCode.unknown_leader_epoch)
            if code is ErrorCode.none:
                fields |= self._read(types, log, target)
        except OperationError as error:
            code = error.error_code
        return types.new(
            "PartitionData",
            partition_index=target.index,
            error_code=code,
            last_stable_offset=-1,
            aborted_transactions=None,
            **fields,
        )

    def _read(self, types: Any, log: PartitionLog, target: SessionTarget) -> dict[str, Any]:
        diverging = diverging_epoch(
            log.end_offset_for_epoch, last_fetched_epoch=target.last_fetched_epoch, fetch_offset=target.fetch_offset
        )
        if diverging is not None:
            end = types.new("EpochEndOffset", epoch=diverging.epoch, end_offset=diverging.end_offset)
            return {"diverging_epoch": end}
        records = log.read(target.fetch_offset, max_bytes=target.max_bytes).read()
        high_watermark = log.log_end_offset if self.high_watermark is None else self.high_watermark
        return {"high_watermark": high_watermark, "log_start_offset": log.log_start_offset, "records": records}

    def _list_offsets(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        topics = []
        for topic in request.body.topics:
            rows = []
            for wanted in topic.partitions:
                log = self.logs[topic_id_of(topic.name), wanted.partition_index]
                offset = {
                    -1: log.log_end_offset,
                    -2: log.log_start_offset,
                    -4: log.local_log_start_offset,
                    -6: log.tiering.highest_remote_offset + 1,
                }[wanted.timestamp]
                epoch = log.leader_epochs.lineage.epoch_at(offset)
                rows.append(
                    new(
                        "ListOffsetsPartitionResponse",
                        partition_index=wanted.partition_index,
                        error_code=self.errors.get(-1, ErrorCode.none),
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=self.leader_epoch if epoch is None else epoch,
                    )
                )
            topics.append(new("ListOffsetsTopicResponse", name=topic.name, partitions=rows))
        return request.types.message(throttle_time=0, topics=topics)

    def _epoch_ends(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        topics = []
        for topic in request.body.topics:
            rows = []
            for wanted in topic.partitions:
                log = self.logs[topic_id_of(topic.topic), wanted.partition]
                epoch, end_offset = log.end_offset_for_epoch(wanted.leader_epoch)
                rows.append(
                    new(
                        "EpochEndOffset",
                        error_code=self.errors.get(-1, ErrorCode.none),
                        partition=wanted.partition,
                        leader_epoch=epoch,
                        end_offset=end_offset,
                    )
                )
            topics.append(new("OffsetForLeaderTopicResult", topic=topic.topic, partitions=rows))
        return request.types.message(throttle_time=0, topics=topics)


class FollowerWorld:
    """A follower, its disk, and any number of leaders on one network."""

    def __init__(
        self,
        loop: VirtualTimeLoop,
        *,
        seed: int = 1,
        settings: dict[str, str] | None = None,
        fs: FileSystem | None = None,
        network: SimulatedNetwork | None = None,
    ) -> None:
        self.loop = loop
        self.rng = random.Random(seed)
        self.network = network or SimulatedNetwork(loop, self.rng)
        self.memory = MemoryFileSystem()
        self.fs = fs if fs is not None else self.memory
        properties = one_node_properties("/d1", "host-2", PORT, node_id=FOLLOWER)
        self.config, _ = ServerConfig.from_properties({**properties, **(settings or {})})
        self.image = cluster(1, FOLLOWER, 3)
        self.leaders: dict[int, ToyLeader] = {}
        # What the follower reads the tier with; None if it has no tier.
        self.remote_reads: RemoteReads | None = None

    async def start(self) -> None:
        """Open the logs on the disk and follow whom the image says."""
        self.runtime = simulated_runtime(self.loop, self.rng, self.network.host("host-2"), self.fs)
        self.tasks = TaskScope()
        self.identity = BrokerIdentity(FOLLOWER, 77)
        self.logs = LogManager(self.runtime, ["/d1"])
        self.partitions = PartitionRegistry()
        self.logs.subscribe_failures(self._on_dir_failure)
        await self.logs.load()
        self.fetchers = ReplicaFetchers(
            self.runtime,
            self.partitions,
            self.identity,
            spawn=self.tasks.start,
            config=lambda: self.config,
            image=lambda: self.image,
            on_dir_failure=self.logs.on_dir_failure,
            save_recovery_points=self.logs.save_recovery_points,
            tier=FollowerTier(lambda: self.remote_reads, self.logs),
        )
        self.publisher = MetadataPublisher(
            FOLLOWER, self.logs, self.partitions, topic_config=_topic_config, fetchers=self.fetchers
        )
        await self.publisher.publish_all(self.image)

    def _on_dir_failure(self, path: str, _lost: list[TopicPartition]) -> None:
        self.partitions.take_offline(path)

    async def stop(self) -> None:
        """Stop cleanly."""
        await self.fetchers.close()
        await self.tasks.close()
        await self.logs.shutdown()

    async def crash(self, rng: random.Random | None = None, *, block_bytes: int = 4096) -> None:
        """Lose power; `start` goes on with what is left."""
        assert isinstance(self.runtime.threads, InlineThreads)
        self.runtime.threads.kill()
        self.memory.crash(rng, block_bytes=block_bytes)
        await self.fetchers.close()
        await self.tasks.close()

    async def add_leader(self, node_id: int = 1, **options: int) -> ToyLeader:
        """Start a leader."""
        leader = self.leaders[node_id] = ToyLeader(node_id, **options)
        await leader.broker.listen(self.network.host(f"host-{node_id}"), f"host-{node_id}", PORT)
        return leader

    def learn(self, image: MetadataImage) -> None:
        """Take over new metadata."""
        before, self.image = self.image, image
        self.publisher.on_metadata(ImageDifference(before, image), image)
        if (deletions := self.logs.removal.pending_renames()) is not None:
            self.tasks.start(deletions())

    def place(self, *partitions: dict[str, Any], topic: str = TOPIC, **configs: str) -> None:
        """Take over an image with the topic; partitions that say nothing follow broker 1 in epoch 5."""
        full = [_unassigned({"replicas": (1, FOLLOWER), **each}) for each in partitions]
        self.learn(with_partitions(self.image, topic, *full, **configs))

    def learn_leader(self, leader: int, leader_epoch: int, index: int = 0, topic: str = TOPIC) -> None:
        """Take over another leader of a partition."""
        partition = partition_of(self.image, topic, index)
        changed = replace(
            partition, leader=leader, leader_epoch=leader_epoch, partition_epoch=partition.partition_epoch + 1
        )
        self.learn(with_partition(self.image, topic, index, changed))

    def partition(self, index: int = 0, topic: str = TOPIC) -> Partition:
        """Return a partition of the follower."""
        return self.partitions.by_name(topic, index)

    async def settle(self, milliseconds: int = SETTLE_MS) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(milliseconds / 1000)


def _unassigned(partition: dict[str, Any]) -> dict[str, Any]:
    return {"directories": (DIRECTORY_UNASSIGNED,) * len(partition["replicas"]), **partition}


def _topic_config(image: MetadataImage, name: str) -> TopicConfig:
    stored = {key: value for key, value in image.configs.get(2, name).items() if key in TOPIC_KEYS}
    return TopicConfig(**topic_fields(parse_topic_overrides(stored)))


def follow(
    test: Callable[[FollowerWorld], Awaitable[None]],
    *,
    seed: int = 1,
    settings: dict[str, str] | None = None,
    fs: FileSystem | None = None,
) -> None:
    """Run a test with a follower that has been started."""
    loop = VirtualTimeLoop()
    world = FollowerWorld(loop, seed=seed, settings=settings, fs=fs)

    async def main() -> None:
        await world.start()
        try:
            await test(world)
        finally:
            await world.stop()
            for leader in world.leaders.values():
                leader.broker.close()
            await asyncio.sleep(0.1)

    loop.run(main())
