"""One log that many parts of a node flush at the same time, on a disk that loses power.

The parts are the real ones: appends that `flush.messages` makes wait, the flush timer, the tier's copier (`flush_log`),
the cleaner, an inline flush, checkpoints, cuts as a follower makes them. Threads take effect at drawn moments, so that
flushes of the log overlap wherever the code lets them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from crabka.broker.partition.partition import Partition
from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.cleaner.cleaner import CleanerSettings, LogCleaner
from crabka.log.dirs.log_manager import LogManager
from crabka.log.partition.partition_log import PartitionLog
from crabka.metadata.topics import PartitionImage
from crabka.ports import Runtime
from crabka.records.header import BatchHeader, parse_header
from crabka.testing import FaultRule, FaultyFileSystem, InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.quorum.images import cluster, partition_of, with_partitions
from tests.support.storage.small import NOW_MS, make_batch

NODE_ID = 1
LOG_DIR = "/d"
PLACE = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=9)
THREAD_DELAYS_MS = (1.0, 20.0)
LIVES = 3
STEPS = 40


def image_of(leader_epoch: int) -> PartitionImage:
    """Return a partition without other replicas that this node leads."""
    placed = {"replicas": (NODE_ID,), "leader": NODE_ID, "leader_epoch": leader_epoch}
    return partition_of(with_partitions(cluster(NODE_ID), "t", placed), "t", 0)


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    """Return the headers of all batches, however large the holes between them are."""
    return [header for each in log.moving.copyable_segments() for _, header in each.segment.headers()]


class PowerCut(BaseException):
    """The power fails in the middle of an operation."""


class FlushWorld:
    """The log, its owners, and what must survive a power cut."""

    def __init__(self, loop: VirtualTimeLoop, rng: random.Random) -> None:
        self.loop = loop
        self.rng = rng
        self.fs = MemoryFileSystem()
        self.fs.makedirs(LOG_DIR)
        self.fs.fsync_dir("/")
        self.epoch = 0
        self.config = TopicConfig(
            internal_segment_bytes=600,
            index_interval_bytes=200,
            retention_ms=-1,
            file_delete_delay_ms=0,
            flush_messages=rng.choice((1, 3, 8)),
            flush_ms=rng.choice((5, 1 << 40)),
            cleanup_policy=frozenset({rng.choice(("delete", "compact"))}),
            min_cleanable_dirty_ratio=0.0,
        )
        # Leader epoch of every offset that is in the log.
        self.epochs: dict[int, int] = {}
        self.acknowledged_end = 0
        self.is_cleaning = False
        # What was acknowledged when the power failed.
        self.left: tuple[int, dict[int, int]] | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open what is on the disk and check it."""
        threads = InlineThreads(
            self.loop, random.Random(self.rng.getrandbits(64)), max_delay_ms=self.rng.choice(THREAD_DELAYS_MS)
        )
        self.disk = FaultyFileSystem(self.fs)
        # No log asks for the network.
        self.runtime = Runtime(SimulatedClock(self.loop), random.Random(1), threads, self.disk, network=None)  # type: ignore[arg-type]
        self.threads = threads
        self.logs = LogManager(self.runtime, [LOG_DIR])
        await self.logs.load(lambda _topic: self.config)
        assert not self.logs.offline_dirs
        self.cleaner = LogCleaner(self.runtime, self.logs, lambda: CleanerSettings(True, 1 << 20, 0.9, 1e9))
        log = self.logs.get(PLACE) or self.logs.create(PLACE, TOPIC_ID, self.config)
        self.partition = Partition("t", 0, TOPIC_ID, log, self.logs.writer(LOG_DIR))
        self.check()
        self.epochs = {offset: epoch for offset, epoch in self.epochs.items() if offset < log.log_end_offset}
        self.lead()

    @property
    def log(self) -> PartitionLog:
        """The open log."""
        return self.partition.log

    def check(self) -> None:
        """Require what an opening must find."""
        log = self.log
        assert log.log_end_offset >= self.acknowledged_end, (
            f"flushed up to {self.acknowledged_end}, found {log.log_end_offset}"
        )
        expected = 0
        for header in headers_of(log):
            assert self.config.compact or header.base_offset == expected, f"a hole before {header.base_offset}"
            expected = header.next_offset
            offset = max(header.base_offset, log.log_start_offset)
            assert header.partition_leader_epoch == self.epochs[offset]
            found = log.leader_epochs.lineage.epoch_at(offset)
            assert found == self.epochs[offset], f"offset {offset} is of epoch {self.epochs[offset]}, found {found}"

    # -- work ----------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Begin a leader epoch."""
        self.epoch += 1
        self.partition.become(image_of(self.epoch), node_id=NODE_ID)

    async def append(self) -> None:
        """Append a batch as a produce request does; one that was flushed before its answer is acknowledged."""
        batch = make_batch(self.rng.randint(1, 3), value_bytes=self.rng.randrange(120))
        header = parse_header(batch)
        # An append that seems to take long would make the log dir slow, and write in a thread from then on.
        now_ms = self.runtime.clock.now_ms()
        if self.partition.queue.is_needed(len(batch), header):
            result = await self.partition.queue.append(self.threads, batch, header, now_ms)
        else:
            result = self.partition.append(batch, header, now_ms)
        if self.config.flush_messages == 1:
            self.acknowledged_end = max(self.acknowledged_end, result.last_offset + 1)

    async def clean(self) -> None:
        """Run the cleaner; it runs once at a time."""
        if not self.is_cleaning:
            self.is_cleaning = True
            try:
                await self.cleaner.run()
            finally:
                self.is_cleaning = False

    async def flush_now(self) -> None:
        """Flush the log for a caller that waits for it."""
        end_offset, truncations = self.log.log_end_offset, self.log.cleaning.truncation_count
        await self.logs.flush_log(self.log)
        if truncations == self.log.cleaning.truncation_count:
            self.acknowledged_end = max(self.acknowledged_end, end_offset)

    async def flush_by_timer(self) -> None:
        """Let the timer flush what is due."""
        self.logs.flush_dirty(self.runtime.clock.now_ms())

    async def flush_inline(self) -> None:
        """Flush on the loop, as a log does that is set aside."""
        if not self.log.is_being_written:
            self.log.flush()
            self.acknowledged_end = max(self.acknowledged_end, self.log.log_end_offset)

    async def save_checkpoints(self) -> None:
        """Write all checkpoints."""
        await self.logs.save_checkpoints()

    async def cut(self) -> None:
        """Cut the end of the log, as a follower does, and go on in a new epoch.

        Not a compacted one: its end would not be that of a batch.
        """
        if self.config.compact:
            return
        async with self.partition.queue.turn():
            if self.log.is_being_written:
                await self.partition.writer.drain()
            low = max(self.log.local_log_start_offset, self.log.log_end_offset - 20)
            offset = self.rng.randint(low, self.log.log_end_offset)
            self.log.truncation.announce(offset)
            await self.logs.save_recovery_points([LOG_DIR])
            # Other logs of the node are cut first.
            await asyncio.sleep(self.rng.uniform(0, 0.03))
            self.remember()
            # From here on, only what is below the cut counts.
            self.acknowledged_end = min(self.acknowledged_end, self._batch_end(offset))
            if self.rng.random() < 0.5:
                self.disk.add(FaultRule(before=self._cut_power, skip=self.rng.randrange(20), times=1))
            self.log.truncation.truncate_to(offset, now_ms=NOW_MS)
            self.disk.rules.clear()
            end_offset = self.log.log_end_offset
            self.acknowledged_end = min(self.acknowledged_end, end_offset)
            self.epochs = {each: epoch for each, epoch in self.epochs.items() if each < end_offset}
            await self.logs.save_recovery_points([LOG_DIR])
            self.lead()

    def _batch_end(self, offset: int) -> int:
        """Return where the last batch ends that a cut at `offset` leaves."""
        return max((each.next_offset for each in headers_of(self.log) if each.next_offset <= offset), default=0)

    def _cut_power(self, _operation: str = "", _path: str = "") -> None:
        """End it all now; what still runs has a disk of its own and changes nothing."""
        self.threads.kill()
        self.fs = self.fs.clone()
        self.fs.crash(self.rng if self.rng.random() < 0.7 else None, block_bytes=self.rng.choice((64, 4096)))
        self.left = self.acknowledged_end, dict(self.epochs)
        raise PowerCut

    # -- a life --------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Start, work, and lose power in the middle of it."""
        await self.start()
        self.left = None
        with contextlib.suppress(PowerCut):
            await self._work()
            self.remember()
            self._cut_power()
        await self._bury()
        assert self.left is not None
        self.acknowledged_end, self.epochs = self.left

    async def _work(self) -> None:
        work: dict[Callable[[], Coroutine[Any, Any, None]], int] = {
            self.append: 20,
            self.flush_by_timer: 4,
            self.flush_now: 4,
            self.clean: 3,
            self.flush_inline: 2,
            self.save_checkpoints: 4,
            self.cut: 2,
        }
        for _ in range(STEPS):
            if self.rng.random() < 0.15:
                self.lead()
            (step,) = self.rng.choices(list(work), list(work.values()))
            self.tasks.add(asyncio.ensure_future(step()))
            if self.rng.random() < 0.6:
                await asyncio.sleep(self.rng.uniform(0, 0.02))
            self._raise_failures()
        # Sometimes all is quiet before the end: what a flush left wrong then stays wrong.
        if self.rng.random() < 0.5:
            await asyncio.sleep(1)
            self._raise_failures()
            if self.rng.random() < 0.5:
                await self.logs.save_checkpoints()

    def _raise_failures(self) -> None:
        if self.left is not None:
            raise PowerCut
        for task in [each for each in self.tasks if each.done()]:
            self.tasks.discard(task)
            task.result()
        self.remember()

    def remember(self) -> None:
        """Note what is in the log, and what it holds to be durable."""
        log = self.log
        for header in headers_of(log):
            for offset in range(header.base_offset, header.next_offset):
                self.epochs.setdefault(offset, header.partition_leader_epoch)
        if log.recovery_point > log.log_start_offset:
            self.acknowledged_end = max(self.acknowledged_end, log.recovery_point)

    async def _bury(self) -> None:
        """End all that was under way."""
        # Some clean up, and wait for threads that never answer.
        while any(not task.done() for task in self.tasks):
            for task in self.tasks:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()


def run_flushes(seed: int) -> None:
    """Live a few lives on one disk. Raises AssertionError if something durable is lost."""
    loop = VirtualTimeLoop()

    async def main() -> None:
        world = FlushWorld(loop, random.Random(seed))
        for _ in range(LIVES):
            await world.live()
        await world.start()
        await world.logs.shutdown()

    loop.run(main())
