"""Checks in the background: passes, suspicions, repairs, and what stays damaged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.broker.healing.mender import MendResult
from crabka.broker.healing.rebuilder import RebuildRefusedError
from crabka.broker.healing.scrubber import LogScrubber
from crabka.broker.partition.partition import Partition
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.ids import TopicPartition
from crabka.log.cleaner.cleaner import CleanerSettings, LogCleaner
from crabka.log.dirs.log_manager import LogManager
from crabka.log.healing.damage import DamagedRange
from crabka.log.healing.scrub_settings import FIRST_PASS_MS, ScrubSettings
from crabka.log.partition.partition_log import PartitionLog
from crabka.ports import Runtime
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.faults.rotting import flip
from tests.support.storage.aborting import SMALL_SEGMENTS, all_aborted, fill_with_transactions
from tests.support.storage.managers import TOPIC_ID, partition

SETTINGS = ScrubSettings(
    is_enabled=True, interval_ms=3_600_000, max_bytes_per_second=1_000_000, max_cpu_percent=5, trigger=""
)


class CopyingMender:
    """Repairs from a copy of the files that was made before they were damaged."""

    def __init__(self, fs: MemoryFileSystem) -> None:
        self._fs = fs
        self.copies: dict[str, bytes] = {}
        self.calls: list[DamagedRange] = []
        self.refusal = MendResult("", ["there is no other replica"])

    def remember(self, log: PartitionLog) -> None:
        for base in log.segment_base_offsets:
            segment = log.healing.segment_of(base)
            self.copies[segment.log_path] = self._fs.open(segment.log_path).pread(segment.size, 0)

    async def mend(self, partition: Partition, damaged: DamagedRange) -> MendResult:
        self.calls.append(damaged)
        log = partition.log
        target = log.healing.begin_check(damaged.base_offset)
        copy = self.copies.get(log.healing.segment_of(damaged.base_offset).log_path)
        if target is None or copy is None:
            return self.refusal._replace(reasons=list(self.refusal.reasons))
        assert log.healing.patch(target, damaged, copy[damaged.position : damaged.end_position])
        return MendResult("a copy", [])


class FakeRebuilder:
    """Lets replicas begin anew, or refuses."""

    def __init__(self) -> None:
        self.refusal = ""
        self.rebuilt: list[Partition] = []

    async def rebuild(self, partition: Partition) -> None:
        if self.refusal:
            raise RebuildRefusedError(self.refusal)
        self.rebuilt.append(partition)
        partition.log.truncation.truncate_fully(partition.log.log_start_offset)


class FakeDirFiles:
    """Finds what a test says, once."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.calls = 0

    async def heal(self) -> list[str]:
        self.calls += 1
        found, self.reasons = self.reasons, []
        return found


class ScrubBench:
    """Three logs with a scrubber, in virtual time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.fs = MemoryFileSystem()
        self.fs.makedirs("/d1")
        runtime = Runtime(SimulatedClock(loop), random.Random(3), InlineThreads(loop), self.fs, network=None)  # type: ignore[arg-type]
        self.clock = runtime.clock
        self.logs = LogManager(runtime, ["/d1"])
        self.partitions = PartitionRegistry()
        self.settings = SETTINGS
        self.mender = CopyingMender(self.fs)
        self.rebuilder = FakeRebuilder()
        self.dir_files = FakeDirFiles()
        cleaner = LogCleaner(runtime, self.logs, lambda: CleanerSettings(False, 1, 0.9, 1))
        self.scrubber = LogScrubber(
            runtime,
            self.logs,
            self.partitions,
            self.mender,  # type: ignore[arg-type]
            rebuilder=self.rebuilder,  # type: ignore[arg-type]
            cleaner=cleaner,
            dir_files=self.dir_files,  # type: ignore[arg-type]
            settings=lambda: self.settings,
        )
        self.logs.subscribe_damage(self.scrubber.suspect)

    async def fill(self, count: int) -> None:
        await self.logs.load()
        for index in range(count):
            log = self.logs.create(partition(index), TOPIC_ID, SMALL_SEGMENTS)
            fill_with_transactions(log, index)
            hosted = Partition(log.topic, index, TOPIC_ID, log, self.logs.writer("/d1"))
            self.partitions.add(hosted)
            self.mender.remember(log)

    def log(self, index: int = 0) -> PartitionLog:
        found = self.logs.get(TopicPartition("orders", index))
        assert found is not None
        return found


def run(scenario: Callable[[ScrubBench], Coroutine[Any, Any, None]], *, count: int = 3) -> None:
    loop = VirtualTimeLoop()

    async def with_scrubber() -> None:
        bench = ScrubBench(loop)
        await bench.fill(count)
        task = asyncio.ensure_future(bench.scrubber.run())
        try:
            await scenario(bench)
        finally:
            task.cancel()
            await asyncio.wait([task])

    try:
        loop.run_until_complete(with_scrubber())
    finally:
        loop.close()


async def one_pass(bench: ScrubBench) -> None:
    passes = bench.scrubber.stats.progress.passes
    while bench.scrubber.stats.progress.passes == passes:
        await asyncio.sleep(1)


@run_with(run)
async def test_a_pass_reads_all_logs_at_the_rate_that_is_allowed(bench: ScrubBench, /) -> None:
    size = sum(log.size_bytes for log in bench.logs)
    bench.settings = SETTINGS._replace(max_bytes_per_second=size // 10)
    await asyncio.sleep(FIRST_PASS_MS / 1000 - 1)
    assert bench.scrubber.stats.bytes_checked == 0
    started_ms = bench.clock.now_ms()
    await one_pass(bench)
    assert bench.clock.now_ms() - started_ms >= 9_000
    stats = bench.scrubber.stats
    assert stats.bytes_checked == size
    assert (stats.progress.pass_logs, stats.progress.pass_logs_done) == (3, 3)
    assert (stats.ranges_found, stats.files_repaired) == (0, 0)
    await asyncio.sleep(SETTINGS.interval_ms / 1000 + 60)
    assert stats.progress.passes == 2


def test_damage_is_found_and_repaired_and_each_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: ScrubBench) -> None:
        log = bench.log(1)
        aborted = all_aborted(log)
        base = log.segment_base_offsets[1]
        flip(bench.fs, log.healing.segment_of(base).log_path, 100)
        flip(bench.fs, f"{log.healing.segment_of(0).stem}.index", 2)
        bench.fs.unlink(f"{log.healing.segment_of(0).stem}.timeindex")
        await one_pass(bench)
        stats = bench.scrubber.stats
        assert (stats.ranges_found, stats.ranges_repaired, stats.files_repaired) == (1, 1, 1)
        assert not log.healing.is_damaged
        assert all_aborted(log) == aborted
        await one_pass(bench)
        assert (stats.ranges_found, stats.files_repaired) == (1, 1)

    run(scenario)
    assert caplog.text.count("are damaged, bytes") == 1
    assert caplog.text.count("are repaired from a copy: the checksum (CRC-32C) does not match") == 1


def test_what_no_other_replica_has_is_named_once_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: ScrubBench) -> None:
        log = bench.log()
        copies, bench.mender.copies = bench.mender.copies, {}
        flip(bench.fs, log.healing.segment_of(0).log_path, 100)
        await one_pass(bench)
        await asyncio.sleep(60)
        assert log.healing.is_damaged
        assert len(bench.mender.calls) > 3
        bench.mender.copies = copies
        await asyncio.sleep(20)
        assert not log.healing.is_damaged

    run(scenario)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "log-dirs check" in errors[0]
    assert "00000000000000000000.log" in errors[0]


@run_with(run)
async def test_what_is_suspected_is_checked_at_once_but_not_for_each_report(bench: ScrubBench, /) -> None:
    bench.settings = SETTINGS._replace(is_enabled=False)
    log = bench.log()
    segment = next(each for each in log.state.segments if each.aborted())
    flip(bench.fs, f"{segment.stem}.txnindex", 9)
    segment.forget_aborted()
    for _ in range(5):
        try:
            all_aborted(log)
        except Exception:  # noqa: BLE001 - what a consumer gets is tested elsewhere
            await asyncio.sleep(0.5)
    assert len(all_aborted(log)) > 0
    assert bench.scrubber.stats.segments_checked == 1
    assert bench.scrubber.stats.progress.passes == 0


@run_with(run)
async def test_a_changed_trigger_starts_a_pass(bench: ScrubBench, /) -> None:
    await asyncio.sleep(1)
    bench.settings = SETTINGS._replace(trigger="now")
    bench.scrubber.settings_changed()
    await asyncio.sleep(10)
    assert bench.scrubber.stats.progress.passes == 1
    bench.scrubber.settings_changed()
    await asyncio.sleep(10)
    assert bench.scrubber.stats.progress.passes == 1


@run_with(run)
async def test_a_log_that_goes_away_is_left_alone(bench: ScrubBench, /) -> None:
    flip(bench.fs, bench.log().healing.segment_of(0).log_path, 100)
    bench.logs.delete(partition(0))
    bench.scrubber.suspect(partition(0), 0, "somebody says so")
    await one_pass(bench)
    assert bench.scrubber.damaged() == []


@run_with(run, count=0)
async def test_a_node_that_starts_without_logs_checks_those_that_come(bench: ScrubBench, /) -> None:
    await one_pass(bench)
    assert bench.scrubber.stats.bytes_checked == 0
    fill_with_transactions(bench.logs.create(partition(0), TOPIC_ID, SMALL_SEGMENTS))
    await one_pass(bench)
    assert bench.scrubber.stats.bytes_checked > 0


def test_a_replica_begins_anew_only_if_others_have_what_does_not_fit_here(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: ScrubBench) -> None:
        bench.mender.copies = {}
        flip(bench.fs, bench.log().healing.segment_of(0).log_path, 100)
        await one_pass(bench)
        assert bench.rebuilder.rebuilt == []
        # The words of a reason decide nothing.
        bench.mender.refusal = MendResult("", ["broker 2: what is there does not fit"])
        await asyncio.sleep(15)
        assert bench.rebuilder.rebuilt == []
        bench.mender.refusal = bench.mender.refusal._replace(has_misfit=True)
        bench.rebuilder.refusal = "0 other replicas are in sync"
        await asyncio.sleep(15)
        assert bench.log().healing.is_damaged
        bench.rebuilder.refusal = ""
        await asyncio.sleep(15)
        assert [each.log for each in bench.rebuilder.rebuilt] == [bench.log()]
        assert not bench.log().healing.is_damaged

    run(scenario)
    assert caplog.text.count("gave up its part") == 1


@run_with(run)
async def test_the_files_of_the_dirs_are_verified_once_in_a_pass(
    bench: ScrubBench, /, caplog: pytest.LogCaptureFixture
) -> None:
    bench.dir_files.reasons = ["/d1/meta.properties: its bytes have changed"]
    await one_pass(bench)
    assert (bench.dir_files.calls, bench.scrubber.stats.files_repaired) == (1, 1)
    assert "/d1/meta.properties: its bytes have changed" in caplog.messages
    await one_pass(bench)
    assert (bench.dir_files.calls, bench.scrubber.stats.files_repaired) == (2, 1)
