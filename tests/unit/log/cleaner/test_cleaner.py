"""The cleaner of a node: choice, throttle, checkpoints, failures."""

from __future__ import annotations

import asyncio
import errno
import random
import sys
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.cleaner.cleaner import CleanerSettings, LogCleaner
from crabka.log.dirs.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from crabka.log.dirs.log_manager import LogManager
from crabka.log.partition.decompression import MAX_DECOMPRESSED_BYTES, decompressed_limit, search_limit
from crabka.ports import FileSystem, Runtime
from crabka.records.builder import build_batch
from crabka.records.compression import ZSTD
from crabka.records.record import Record
from crabka.testing import FaultRule, FaultyFileSystem, InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.pending_threads import PendingThreads
from tests.support.storage.small import NOW_MS, append, make_batch, read_headers

COMPACT = TopicConfig(cleanup_policy=frozenset({"compact"}), internal_segment_bytes=300)
CHECKPOINT = "/d1/cleaner-offset-checkpoint"
UNLIMITED = CleanerSettings(
    enabled=True, dedupe_buffer_bytes=10_000, load_factor=0.9, max_bytes_per_second=sys.float_info.max
)


class Bench:
    """Logs in one dir with a cleaner, in virtual time."""

    def __init__(self, loop: VirtualTimeLoop, fs: FileSystem) -> None:
        self.loop = loop
        clock = SimulatedClock(loop)
        # No log asks for the network.
        runtime = Runtime(clock, random.Random(3), InlineThreads(loop), fs, network=None)  # type: ignore[arg-type]
        self.logs = LogManager(runtime, ["/d1"])
        self.settings = UNLIMITED
        self.cleaner = LogCleaner(runtime, self.logs, lambda: self.settings)

    def fill(self, topic: str, config: TopicConfig = COMPACT, batches: int = 12, topic_id: int = 1) -> TopicPartition:
        log = self.logs.create(TopicPartition(topic, 0), uuid.UUID(int=topic_id), config)
        for _ in range(batches):
            append(log, make_batch(1, value_bytes=40))
        return log.topic_partition

    def offsets(self, topic_partition: TopicPartition) -> list[int]:
        log = self.logs.get(topic_partition)
        assert log is not None
        return [header.base_offset for header in read_headers(log)]


Scenario = Callable[[Bench], Coroutine[Any, Any, None]]


def simulate(scenario: Scenario, fs: FileSystem | None = None) -> None:
    loop = VirtualTimeLoop()

    async def main() -> None:
        bench = Bench(loop, fs or MemoryFileSystem())
        await bench.logs.load(lambda _topic: COMPACT)
        await scenario(bench)

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


@run_with(simulate)
async def test_compacted_logs_are_cleaned_and_others_are_not(bench: Bench, /) -> None:
    compacted, plain = bench.fill("c"), bench.fill("d", TopicConfig(internal_segment_bytes=300))
    await bench.cleaner.run()
    assert bench.offsets(compacted) == [9, 10, 11]
    assert bench.offsets(plain) == list(range(12))
    stats = bench.cleaner.stats
    assert stats.cleanings == 1
    assert stats.bytes_read > stats.bytes_written > 0
    assert stats.last_cleaning_ms > 0


@run_with(simulate)
async def test_a_log_below_its_dirty_ratio_waits(bench: Bench, /) -> None:
    lazy = bench.fill("lazy", replace(COMPACT, min_cleanable_dirty_ratio=1.0))
    await bench.cleaner.run()
    assert bench.offsets(lazy) == list(range(12))
    assert bench.cleaner.stats.max_dirty_ratio == 1.0


@run_with(simulate)
async def test_a_log_is_cleaned_again_when_enough_was_added(bench: Bench, /) -> None:
    name = bench.fill("c")
    await bench.cleaner.run()
    bench.fill("c", batches=2)
    await bench.cleaner.run()
    bench.fill("c", batches=6)
    await bench.cleaner.run()
    assert bench.cleaner.stats.cleanings == 3
    assert len(bench.offsets(name)) < 5
    await bench.cleaner.run()
    assert bench.cleaner.stats.cleanings == 3


def test_the_clean_part_is_known_after_a_restart() -> None:
    fs = MemoryFileSystem()

    async def first(bench: Bench) -> None:
        bench.fill("c")
        await bench.cleaner.run()
        await bench.logs.shutdown()

    async def second(bench: Bench) -> None:
        assert read_offset_checkpoint(fs, CHECKPOINT) == {TopicPartition("c", 0): 10}
        await bench.cleaner.run()
        assert bench.cleaner.stats.cleanings == 0

    simulate(first, fs)
    simulate(second, fs)


def test_a_damaged_checkpoint_makes_everything_dirty() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d1")
    fs.open(CHECKPOINT, create=True).pwritev([b"junk"], 0)

    async def scenario(bench: Bench) -> None:
        bench.fill("c")
        await bench.cleaner.run()
        assert bench.cleaner.stats.cleanings == 1

    simulate(scenario, fs)


@run_with(simulate)
async def test_a_topic_of_the_same_name_begins_dirty(bench: Bench, /) -> None:
    name = bench.fill("c")
    await bench.cleaner.run()
    bench.logs.delete(name)
    bench.fill("c", topic_id=2)
    await bench.cleaner.run()
    assert bench.offsets(name) == [9, 10, 11]
    assert bench.cleaner.stats.cleanings == 2


@run_with(simulate)
async def test_little_memory_means_several_rounds(bench: Bench, /) -> None:
    bench.settings = UNLIMITED._replace(dedupe_buffer_bytes=24 * 4)
    log = bench.logs.create(TopicPartition("c", 0), uuid.UUID(int=1), COMPACT)
    for _ in range(6):
        append(log, make_batch(3))
        append(log, make_batch(2))
    await bench.cleaner.run()
    assert bench.cleaner.stats.cleanings >= 1
    assert not bench.cleaner.is_uncleanable(log.topic_partition)
    wide = bench.logs.create(TopicPartition("wide", 0), uuid.UUID(int=2), COMPACT)
    for _ in range(6):
        append(wide, make_batch(9))
    await bench.cleaner.run()
    assert bench.cleaner.is_uncleanable(wide.topic_partition)


@run_with(simulate)
async def test_the_throttle_bounds_bytes_per_second(bench: Bench, /) -> None:
    bench.settings = UNLIMITED._replace(max_bytes_per_second=1000)
    bench.fill("c")
    started = bench.loop.time()
    await bench.cleaner.run()
    stats = bench.cleaner.stats
    assert bench.loop.time() - started >= (stats.bytes_read + stats.bytes_written) / 1000 - 1


def test_a_log_that_cannot_be_cleaned_is_set_aside_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()

    async def scenario(bench: Bench) -> None:
        broken, sound = bench.fill("broken"), bench.fill("sound")
        file = fs.open(f"/d1/{broken}/{0:020d}.log")
        file.pwritev([b"\xff"], 80)
        for _ in range(3):
            await bench.cleaner.run()
        assert bench.cleaner.is_uncleanable(broken)
        assert bench.offsets(broken) == list(range(12))
        assert bench.offsets(sound) == [9, 10, 11]
        assert bench.cleaner.stats.uncleanable == 1
        assert not [name for name in fs.listdir(f"/d1/{broken}") if name.endswith(".cleaned")]

    simulate(scenario, fs)
    assert len([each for each in caplog.records if "cannot be cleaned" in each.message]) == 1


def test_a_disk_that_fails_takes_its_dir_offline() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())

    async def scenario(bench: Bench) -> None:
        bench.fill("c")
        faulty.add(FaultRule(operation="fsync", path="*.cleaned", error=errno.EIO))
        await bench.cleaner.run()
        assert bench.logs.offline_dirs == ["/d1"]

    simulate(scenario, faulty)


@run_with(simulate)
async def test_a_topic_deleted_while_it_is_cleaned_disturbs_no_other(bench: Bench, /) -> None:
    bench.settings = UNLIMITED._replace(max_bytes_per_second=100)
    name = bench.fill("c")
    run = asyncio.ensure_future(bench.cleaner.run())
    await asyncio.sleep(1)
    bench.logs.delete(name)
    await run
    assert bench.logs.offline_dirs == []
    assert bench.cleaner.stats.cleanings == 0


@run_with(simulate)
async def test_segments_that_retention_takes_meanwhile_stay_gone(bench: Bench, /) -> None:
    bench.settings = UNLIMITED._replace(max_bytes_per_second=100)
    name = bench.fill("c")
    log = bench.logs.get(name)
    assert log is not None
    run = asyncio.ensure_future(bench.cleaner.run())
    await asyncio.sleep(1)
    log.retention.delete_records_before(8)
    log.retention.delete_below_log_start(0)
    await run
    assert bench.logs.offline_dirs == []
    assert min(bench.offsets(name)) >= 8


@run_with(simulate)
async def test_a_cleaner_that_is_off_does_nothing(bench: Bench, /) -> None:
    bench.settings = UNLIMITED._replace(enabled=False)
    name = bench.fill("c")
    await bench.cleaner.run()
    assert bench.offsets(name) == list(range(12))


@run_with(simulate)
async def test_a_cancelled_cleaning_leaves_the_log_whole(bench: Bench, /) -> None:
    bench.settings = UNLIMITED._replace(max_bytes_per_second=100)
    name = bench.fill("c")
    run = asyncio.ensure_future(bench.cleaner.run())
    await asyncio.sleep(1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert bench.offsets(name) == list(range(12))


@run_with(simulate)
async def test_a_paused_log_is_left_alone_until_it_is_resumed(bench: Bench, /) -> None:
    paused, other = bench.fill("c"), bench.fill("d")
    await bench.cleaner.pause(paused)
    await bench.cleaner.run()
    assert bench.offsets(paused) == list(range(12))
    assert bench.offsets(other) == [9, 10, 11]
    bench.cleaner.resume(paused)
    await bench.cleaner.run()
    assert bench.offsets(paused) == [9, 10, 11]


@run_with(simulate)
async def test_a_pause_waits_for_a_cleaning_and_keeps_its_result_away(bench: Bench, /) -> None:
    name = bench.fill("c")
    running = asyncio.ensure_future(bench.cleaner.run())
    for _ in range(4):
        await asyncio.sleep(0)
    await bench.cleaner.pause(name)
    offsets = bench.offsets(name)
    await running
    assert bench.offsets(name) == offsets


def test_a_checkpoint_that_cannot_be_read_takes_its_dir_offline() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())

    async def scenario(bench: Bench) -> None:
        name = bench.fill("c")
        write_offset_checkpoint(fs, CHECKPOINT, {})
        fs.add(FaultRule(operation="open", path=CHECKPOINT, error=errno.EIO))
        await bench.cleaner.pause(name)
        assert bench.logs.offline_dirs == ["/d1"]

    simulate(scenario, fs)


@run_with(simulate)
async def test_what_the_cleaner_decompresses_counts_as_what_requests_do(bench: Bench, /) -> None:
    compacted = bench.fill("c")
    log = bench.logs.get(compacted)
    assert log is not None
    held = PendingThreads()
    log.decompression.submit(held, MAX_DECOMPRESSED_BYTES, int)
    run = asyncio.ensure_future(bench.cleaner.run())
    await asyncio.sleep(10)
    assert bench.offsets(compacted) == list(range(12)), "there is no memory for it"
    held.running[0].set_result(None)
    await run
    assert bench.offsets(compacted) == [9, 10, 11]
    assert log.decompression.used_bytes == 0


@run_with(simulate)
async def test_a_batch_that_holds_more_than_usual_is_cleaned_by_itself(bench: Bench, /) -> None:
    small = replace(COMPACT, max_message_bytes=1)
    compacted = bench.fill("c")
    log = bench.logs.get(compacted)
    assert log is not None
    append(log, build_batch([Record(0, NOW_MS, b"big", bytes(2 * decompressed_limit(small)))], codec=ZSTD))
    append(log, make_batch(1, value_bytes=100))
    log.state.config = small  # the limit was larger when it was written
    sizes: list[int] = []
    submit = log.decompression.submit

    def note(threads: Any, size: int, *args: Any) -> Any:
        sizes.append(size)
        return submit(threads, size, *args)

    log.decompression.submit = note  # type: ignore[method-assign,assignment]
    await bench.cleaner.run()
    assert not bench.cleaner.is_uncleanable(compacted)
    assert set(sizes) == {decompressed_limit(small), search_limit(small)}
