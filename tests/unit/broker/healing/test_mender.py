"""Repair of a range from sources: the first one whose batches are those that were written here."""

from __future__ import annotations

import asyncio
import random
import uuid

from crabka.broker.healing.mender import RangeMender
from crabka.broker.healing.sources import RepairSource, SourceError
from crabka.broker.partition import Partition
from crabka.log.damage import DamagedRange
from crabka.log.partition_log import PartitionLog
from crabka.ports import Runtime
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.logs import append, make_batch, make_context, open_test_log
from tests.support.rotting import check_and_repair, flip


class LogSource:
    """Another copy of the log, of which each fetch returns at most so many bytes."""

    def __init__(self, log: PartitionLog, name: str = "a copy", *, most_bytes: int = 400) -> None:
        self._log = log
        self.name = name
        self._most_bytes = most_bytes
        self.fetched: list[int] = []

    async def fetch(self, _partition: Partition, offset: int, end_offset: int) -> bytes:
        self.fetched.append(offset)
        if self._log.log_end_offset < end_offset:
            raise SourceError("it is not there yet")
        return bytes(self._log.read(offset, max_bytes=self._most_bytes).read())


class FixedSources:
    """The sources of any partition."""

    def __init__(self, *sources: RepairSource) -> None:
        self._sources = list(sources)

    def of(self, _partition: Partition) -> list[RepairSource]:
        return self._sources


def filled(seed: int = 1) -> tuple[MemoryFileSystem, PartitionLog]:
    context = make_context()
    assert isinstance(context.fs, MemoryFileSystem)
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log, seed)
    return context.fs, log


def mend(log: PartitionLog, damaged: DamagedRange, *sources: RepairSource) -> tuple[str, list[str]]:
    loop = VirtualTimeLoop()
    runtime = Runtime(SimulatedClock(loop), random.Random(1), InlineThreads(loop), log._context.fs, network=None)  # type: ignore[arg-type]
    partition = Partition(log.topic, log.partition, uuid.UUID(int=1), log, None)  # type: ignore[arg-type]
    mender = RangeMender(runtime, FixedSources(*sources))  # type: ignore[arg-type]
    try:
        return loop.run_until_complete(asyncio.wait_for(mender.mend(partition, damaged), 60))
    finally:
        loop.close()


def damaged_log() -> tuple[MemoryFileSystem, PartitionLog, DamagedRange]:
    fs, log = filled()
    base = log.segment_base_offsets[1]
    path = log.segment_of(base).log_path
    file = fs.open(path)
    file.pwritev([bytes(500)], 150)
    check_and_repair(log, base)
    (damaged,) = log.damage
    return fs, log, damaged


def test_a_range_of_many_batches_is_fetched_and_put_back_durably() -> None:
    fs, log, damaged = damaged_log()
    _, other = filled()
    source = LogSource(other)
    assert mend(log, damaged, source) == ("a copy", [])
    assert len(source.fetched) > 1
    path = log.segment_of(damaged.base_offset).log_path
    right = other._context.fs.open(path).pread(other.segment_of(damaged.base_offset).size, 0)
    assert fs.open(path).pread(len(right), 0) == right
    check_and_repair(log, damaged.base_offset)
    assert not log.is_damaged


def test_sources_that_are_of_no_use_are_passed_over() -> None:
    _, log, damaged = damaged_log()
    _, other = filled()
    _, different = filled(seed=2)
    shorter = open_test_log(config=SMALL_SEGMENTS)
    rotten_fs, rotten = filled()
    flip(rotten_fs, rotten.segment_of(damaged.base_offset).log_path, 200)
    source, reasons = mend(
        log,
        damaged,
        LogSource(shorter, "short"),
        LogSource(rotten, "rotten"),
        LogSource(different, "different"),
        LogSource(other),
    )
    assert source == "a copy"
    assert [reason.split(":")[0] for reason in reasons] == ["short", "rotten", "different"]
    assert "checksum" in reasons[1]


def test_without_a_source_nothing_is_changed() -> None:
    fs, log, damaged = damaged_log()
    path = log.segment_of(damaged.base_offset).log_path
    before = fs.open(path).pread(10_000, 0)
    assert mend(log, damaged) == ("", ["there is no other replica"])
    assert fs.open(path).pread(10_000, 0) == before


def test_a_history_of_another_epoch_is_refused() -> None:
    context = make_context()
    log = open_test_log(context, SMALL_SEGMENTS)
    other = open_test_log(config=SMALL_SEGMENTS)
    for _ in range(5):
        append(log, make_batch(2), leader_epoch=3)
        append(other, make_batch(2), leader_epoch=4)
    flip(context.fs, log.segment_of(0).log_path, 70)
    check_and_repair(log, 0)
    (damaged,) = log.damage
    source, reasons = mend(log, damaged, LogSource(other))
    assert source == ""
    assert "leader epoch 4" in reasons[0]
