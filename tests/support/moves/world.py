"""A broker's logs in several dirs under random moves, crashes and failing disks, and a model of what must survive.

Real are the log manager, the publisher of metadata, the partition and everything that moves it; the controller is a
place that remembers what was reported to it, whatever happens to the node. One partition is enough: the test follows
its copies.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from crabka.broker.lifecycle.metadata_publisher import MetadataPublisher
from crabka.broker.logdirs.move_host import MoveHost
from crabka.broker.logdirs.move_registry import MoveRegistry
from crabka.broker.logdirs.resume import MoveResolution
from crabka.broker.partition.partition import Partition
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.config.topic import TopicConfig
from crabka.errors import OperationError, StorageError
from crabka.formats.meta_properties import MetaProperties
from crabka.ids import TopicPartition
from crabka.log.cleaner.cleaner import CleanerSettings, LogCleaner
from crabka.log.dirs.log_manager import LogManager
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.metadata.image import MetadataImage
from crabka.ports import Runtime
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.header import parse_header
from crabka.records.record import Record, decode_records
from crabka.testing import (
    FaultRule,
    FaultyFileSystem,
    InlineThreads,
    MemoryFileSystem,
    SimulatedClock,
    SimulatedNetwork,
    VirtualTimeLoop,
)
from crabka.testing.faulty_file_system import disk_failure, no_space
from tests.support.quorum.images import cluster, partition_of, topic_id_of, with_partition, with_partitions
from tests.support.storage.small import read_batches

DIRS = ("/a", "/b", "/c")
TOPIC = "t"
TP = TopicPartition(TOPIC, 0)
NODE_ID = 1
PRODUCER_ID = 7
CONFIG = TopicConfig(segment_bytes=700, file_delete_delay_ms=1000, retention_ms=-1)
# What a crash can distinguish.
CHANGES = frozenset({"open", "pwritev", "truncate", "fsync", "fsync_dir", "rename", "unlink", "makedirs"})


@dataclass
class MovedLog:
    """What the partition holds: the record at offset `i` is `lines[i]`."""

    # Where the metadata place the replica.
    directory: uuid.UUID
    lines: list[bytes] = field(default_factory=list)
    # On its way to the disk.
    pending: list[bytes] = field(default_factory=list)
    # Acknowledged, so it survives the end of the process.
    acknowledged: int = 0
    # Synced, so it survives a power cut.
    durable: int = 0
    # The log start that was asked for, and that was acknowledged.
    start: int = 0
    durable_start: int = 0
    # What flushes that are under way will make durable.
    flushing: list[list[int]] = field(default_factory=list)

    def cut(self, offset: int) -> None:
        """Expect no more than what is below an offset."""
        self.acknowledged = min(self.acknowledged, offset)
        self.durable = min(self.durable, offset)
        self.start = min(self.start, offset)
        self.durable_start = min(self.durable_start, offset)
        for each in self.flushing:
            each[0] = min(each[0], offset)


def directory_id(path: str) -> uuid.UUID:
    """Return the id of a log dir."""
    return uuid.UUID(int=100 + DIRS.index(path))


class Controller:
    """Commits where the replica is."""

    def __init__(self, world: MoveWorld) -> None:
        self._world = world

    async def assign(self, _partition: Partition, log_dir: str) -> None:
        await asyncio.sleep(self._world.rng.uniform(0, 0.02))
        self._world.model.directory = directory_id(log_dir)
        await asyncio.sleep(self._world.rng.uniform(0, 0.01))


class MoveWorld:
    """The disk, the controller and the model over several lives of a node."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.memory = MemoryFileSystem()
        self.model = MovedLog(directory=directory_id("/a"))
        self.crashed: tuple[MemoryFileSystem, MovedLog] | None = None
        self.node: MoveNode | None = None
        self.leader_epoch = 0
        for path in DIRS:
            self.memory.makedirs(path)
            write_meta_properties(self.memory, path, MetaProperties("cluster", NODE_ID, directory_id(path)))
        self.memory.fsync_dir("/")

    @property
    def image(self) -> MetadataImage:
        """The metadata as they are now."""
        image = with_partitions(cluster(NODE_ID), TOPIC, {"replicas": [NODE_ID]})
        place = replace(partition_of(image, TOPIC), directories=(self.model.directory,), leader_epoch=self.leader_epoch)
        return with_partition(image, TOPIC, 0, place)

    def capture(self) -> None:
        """Remember the disk as a crash at this moment finds it."""
        if self.crashed is None:
            self.crashed = self.memory.clone(), copy.deepcopy(self.model)

    def crash(self, *, keeps_cache: bool) -> None:
        """Go on with the disk at the remembered moment: after `kill -9` or after a power cut."""
        assert self.node is not None
        self.capture()
        self.node.kill()
        assert self.crashed is not None
        self.memory, self.model = self.crashed
        self.crashed = None
        if not keeps_cache:
            self.memory.crash(self.rng, block_bytes=64)
            self.model.acknowledged = min(self.model.acknowledged, self.model.durable)


class MoveNode:
    """One life of the node."""

    def __init__(
        self,
        world: MoveWorld,
        *,
        failed: str | None = None,
        crash_after: int | None = None,
        mischief: random.Random | None = None,
    ) -> None:
        self.world = world
        self.failed = {failed} if failed is not None else set()
        self.loop = VirtualTimeLoop()
        self.fs = FaultyFileSystem(world.memory)
        if failed is not None:
            self.fs.add(disk_failure(f"{failed}*"))
        if crash_after is not None:
            self.fs.add(FaultRule(before=self._count(crash_after)))
        self.threads = InlineThreads(self.loop, random.Random(world.rng.getrandbits(64)), max_delay_ms=2.0)
        self.runtime = Runtime(
            clock=SimulatedClock(self.loop),
            rng=random.Random(world.rng.getrandbits(64)),
            threads=self.threads,
            fs=self.fs,
            network=SimulatedNetwork(self.loop, random.Random(1)).host("node"),
            failpoints=self,
        )
        self.logs = LogManager(self.runtime, DIRS, tiering=False)
        self.partitions = PartitionRegistry(lambda: world.image)
        cleaner = LogCleaner(self.runtime, self.logs, lambda: CleanerSettings(False, 1 << 20, 0.9, 1e9))
        host = MoveHost(runtime=self.runtime, logs=self.logs, cleaner=cleaner, assignments=Controller(world))
        self.moves = MoveRegistry(host, self.partitions, spawn=self.loop.create_task, slots=3)
        self.logs.subscribe_failures(self._on_dir_failure)
        self.mischief = mischief
        world.node = self
        world.leader_epoch += 1

    def _count(self, changes: int) -> Any:
        left = changes

        def before(operation: str, _path: str) -> None:
            nonlocal left
            if operation in CHANGES:
                left -= 1
                if left == 0:
                    self.world.capture()

        return before

    def hit(self, name: str) -> None:
        """Note what a step of a move promises."""
        self._make_mischief()
        if name == "move.after_future_synced" and (partition := self.partition) is not None:
            self.world.model.durable = max(self.world.model.durable, partition.log.log_end_offset)

    def _make_mischief(self) -> None:
        """Now and then crash, or let a disk die, at a step of a move: time alone seldom hits these moments."""
        draw = 1.0 if self.mischief is None else self.mischief.random()
        moves = self.moves.progress()
        if draw < 0.02:
            self.world.capture()
        elif draw < 0.03 and moves:
            self.fail(moves[0].target_dir)
        elif draw < 0.035 and moves:
            self.fail(moves[0].source_dir)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run the loop until a coroutine is done."""
        return self.loop.run_until_complete(coroutine)

    def boot(self) -> None:
        """Settle, open, publish, notify the controller, go on with moves."""
        self.run(self._boot())

    async def _boot(self) -> None:
        model = self.world.model
        resolution = MoveResolution(
            fs=self.fs,
            directory_id=self.logs.directory_id,
            assigned=lambda _tp: model.directory,
            new_uuid=self.runtime.new_uuid,
            dir_count=len(DIRS),
            withheld=self.logs.withheld,
        )
        await self.logs.load(lambda _topic: CONFIG, resolution.settle)
        publisher = MetadataPublisher(
            NODE_ID, self.logs, self.partitions, topic_config=lambda *_: CONFIG, moves=self.moves
        )
        await publisher.publish_all(self.world.image)
        if (partition := self.partition) is not None:
            # Nothing is led before the controller knows where it is.
            model.directory = directory_id(partition.log.log_dir)
        self.moves.resume(self.logs.futures)

    def _on_dir_failure(self, log_dir: str, _lost: Any) -> None:
        self.failed.add(log_dir)
        self.partitions.take_offline(log_dir)
        self.moves.on_dir_failure(log_dir)

    def kill(self) -> None:
        """End without a trace; one that has ended already stays as it is."""
        if self.loop.is_closed():
            return
        self.threads.kill()
        while tasks := asyncio.all_tasks(self.loop):
            # Several times: some wait, when they are cancelled, for threads that are no more.
            for task in tasks:
                task.cancel()
            self.run(asyncio.sleep(0.001))
        self.loop.close()

    def stop(self) -> None:
        """Stop cleanly."""

        async def stop() -> None:
            await self.moves.close()
            await self.logs.shutdown()

        self.run(stop())
        self.loop.close()
        if self.partition is not None and self.partition.log.log_dir not in self.failed:
            self.world.model.durable = self.world.model.acknowledged

    @property
    def partition(self) -> Partition | None:
        """The partition, if it is served."""
        return self.partitions.get(TOPIC, 0)

    # -- what clients and operators do ---------------------------------------------------------------------------

    async def append(self, count: int) -> None:
        model = self.world.model
        for _ in range(count):
            partition = self.partition
            if partition is None:
                return
            offset = len(model.lines)
            value = b"%d-%d" % (offset, self.world.rng.getrandbits(40))
            batch = build_batch(
                [Record(0, self.runtime.clock.now_ms(), None, value)],
                producer_id=PRODUCER_ID,
                producer_epoch=0,
                base_sequence=offset,
            )
            header = parse_header(batch)
            model.pending = [value]
            try:
                if partition.queue.is_needed(len(batch), header):
                    result = await partition.queue.append(self.threads, batch, header, self.runtime.clock.now_ms())
                else:
                    result = partition.append(batch, header, self.runtime.clock.now_ms())
            except StorageError as error:
                self.logs.on_dir_failure(error.log_dir, error)
                return
            except OperationError as refusal:
                if refusal.error_code is not ErrorCode.kafka_storage_error:
                    raise
                return
            assert result.first_offset == offset
            model.lines.append(value)
            model.pending = []
            model.acknowledged = len(model.lines)

    async def flush(self) -> None:
        if (partition := self.partition) is not None:
            model, end = self.world.model, [partition.log.log_end_offset]
            model.flushing.append(end)
            await self.logs.flush_log(partition.log)
            await self.logs.save_checkpoints()
            model.flushing.remove(end)
            if self.partition is partition:
                model.durable = max(model.durable, end[0])

    async def cut(self, offset: int) -> None:
        """Lose the end of the log to a new leader, as a follower does."""
        partition, model = self.partition, self.world.model
        if partition is None:
            return
        async with partition.queue.turn():
            if self.partition is not partition:
                return
            offset = max(min(offset, len(model.lines)), model.start)
            model.cut(offset)
            partition.log.truncation.announce(offset)
            await self.logs.save_recovery_points([partition.log.log_dir])
            if self.partition is not partition:
                return
            try:
                partition.log.truncation.truncate_to(offset)
            except StorageError as error:
                self.logs.on_dir_failure(error.log_dir, error)
                return
            del model.lines[offset:]
            model.cut(offset)
            await self.logs.save_recovery_points([partition.log.log_dir])
        self.world.leader_epoch += 1
        partition.leader_epoch = self.world.leader_epoch

    async def trim(self, offset: int) -> None:
        partition, model = self.partition, self.world.model
        if partition is not None and model.start < offset <= partition.log.high_watermark:
            model.start = offset
            log_dir = partition.log.log_dir
            partition.log.retention.delete_records_before(offset)
            await self.logs.save_log_starts([log_dir])
            if self.partition is partition:
                model.durable_start = max(model.durable_start, min(offset, model.start))

    async def retain(self) -> None:
        if self.partition is not None:
            await self.logs.retention.run(self.runtime.clock.now_ms())

    def delete(self) -> None:
        """Remove what waits for it."""

        async def delete() -> None:
            await asyncio.sleep(2)
            removal = self.logs.removal.delete_due(self.runtime.clock.now_ms())
            if removal is not None:
                await removal

        self.run(delete())

    def move(self, path: str) -> None:
        if (partition := self.partition) is not None and path in self.logs.online_dirs:
            with contextlib.suppress(StorageError):
                self.moves.move(partition, path)

    def fill(self, path: str) -> None:
        """Let a dir have no room for future logs any more."""
        self.fs.add(no_space(f"{path}/*-future*"))

    def fail(self, path: str) -> None:
        """Let the disk of a dir die."""
        self.fs.add(disk_failure(f"{path}*"))

    # -- what must be true ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """There is one copy, and it has what it must have."""
        world, model = self.world, self.world.model
        names = {path: world.memory.listdir(path) for path in DIRS if path not in self.failed}
        copies = [path for path, found in names.items() if str(TP) in found]
        partition = self.partition
        if partition is None:
            assert self.failed, f"the replica is not served, though all disks work: {names}"
            return
        assert copies == [partition.log.log_dir], f"copies in {copies}, served from {partition.log.path}"
        log = partition.log
        assert model.durable_start <= log.log_start_offset <= model.start, "log start"
        found = {}
        for header, batch in read_batches(log):
            for record in decode_records(batch, header):
                found[record.offset] = record.value
            assert log.leader_epochs.lineage.epoch_at(header.base_offset) == header.partition_leader_epoch
        expected = [*model.lines, *model.pending]
        assert log.log_end_offset >= model.acknowledged, (
            f"ends at {log.log_end_offset}, {model.acknowledged} were acknowledged"
        )
        for offset in range(log.local_log_start_offset, log.log_end_offset):
            assert found.get(offset) == expected[offset], f"offset {offset}"
        entry = log.producer_state.entries.get(PRODUCER_ID)
        if log.log_end_offset > log.local_log_start_offset:
            assert entry is not None
            assert entry.batches[-1].last_offset == log.log_end_offset - 1
        model.lines = expected[: log.log_end_offset]
        model.pending = []
        model.acknowledged = len(model.lines)
        model.start = model.durable_start = log.log_start_offset


__all__ = ["CONFIG", "DIRS", "TP", "MoveNode", "MoveWorld", "topic_id_of"]
