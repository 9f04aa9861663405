"""Repair of a range from sources: the first one whose batches are those that were written here."""

from __future__ import annotations

import asyncio
import random
import uuid

from crabka.broker.healing.mender import MendResult, RangeMender
from crabka.broker.healing.sources import RepairSource, SourceError
from crabka.broker.partition.partition import Partition
from crabka.log.healing.damage import DamagedRange
from crabka.log.partition.partition_log import PartitionLog
from crabka.ports import Runtime
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.faults.rotting import check_and_repair, flip
from tests.support.storage.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.storage.small import append, make_batch, make_context, open_test_log


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


def mend(log: PartitionLog, damaged: DamagedRange, *sources: RepairSource) -> MendResult:
    loop = VirtualTimeLoop()
    runtime = Runtime(SimulatedClock(loop), random.Random(1), InlineThreads(loop), log.state.context.fs, network=None)  # type: ignore[arg-type]
    partition = Partition(log.topic, log.partition, uuid.UUID(int=1), log, None)  # type: ignore[arg-type]
    mender = RangeMender(runtime, FixedSources(*sources))  # type: ignore[arg-type]
    try:
        return loop.run_until_complete(asyncio.wait_for(mender.mend(partition, damaged), 60))
    finally:
        loop.close()


def damaged_log() -> tuple[MemoryFileSystem, PartitionLog, DamagedRange]:
    fs, log = filled()
    base = log.segment_base_offsets[1]
    path = log.healing.segment_of(base).log_path
    file = fs.open(path)
    file.pwritev([bytes(500)], 150)
    check_and_repair(log, base)
    (damaged,) = log.healing.damage
    return fs, log, damaged


def test_a_range_of_many_batches_is_fetched_and_put_back_durably() -> None:
    fs, log, damaged = damaged_log()
    _, other = filled()
    source = LogSource(other)
    assert mend(log, damaged, source) == MendResult("a copy", [])
    assert len(source.fetched) > 1
    path = log.healing.segment_of(damaged.base_offset).log_path
    right = other.state.context.fs.open(path).pread(other.healing.segment_of(damaged.base_offset).size, 0)
    assert fs.open(path).pread(len(right), 0) == right
    check_and_repair(log, damaged.base_offset)
    assert not log.healing.is_damaged


def test_sources_that_are_of_no_use_are_passed_over() -> None:
    _, log, damaged = damaged_log()
    _, other = filled()
    _, different = filled(seed=2)
    shorter = open_test_log(config=SMALL_SEGMENTS)
    rotten_fs, rotten = filled()
    flip(rotten_fs, rotten.healing.segment_of(damaged.base_offset).log_path, 200)
    source, reasons, has_misfit = mend(
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
    assert has_misfit


def test_without_a_source_nothing_is_changed() -> None:
    fs, log, damaged = damaged_log()
    path = log.healing.segment_of(damaged.base_offset).log_path
    before = fs.open(path).pread(10_000, 0)
    assert mend(log, damaged) == MendResult(
        "", ["what is left of them: no single change of a byte makes the checksum fit"]
    )
    assert fs.open(path).pread(10_000, 0) == before


def test_a_history_of_another_epoch_is_refused() -> None:
    context = make_context()
    log = open_test_log(context, SMALL_SEGMENTS)
    other = open_test_log(config=SMALL_SEGMENTS)
    for _ in range(5):
        append(log, make_batch(2), leader_epoch=3)
        append(other, make_batch(2), leader_epoch=4)
    path = log.healing.segment_of(0).log_path
    for position in (70, 75, 80):
        flip(context.fs, path, position)
    check_and_repair(log, 0)
    (damaged,) = log.healing.damage
    source, reasons, has_misfit = mend(log, damaged, LogSource(other))
    assert source == ""
    assert not has_misfit
    assert "leader epoch 4" in reasons[0]


class AbsentSource:
    """A replica that does not answer."""

    name = "absent"

    def __init__(self, *, may_come_back: bool) -> None:
        self._may_come_back = may_come_back

    async def fetch(self, _partition: Partition, _offset: int, _end_offset: int) -> bytes:
        raise SourceError("it does not answer", may_come_back=self._may_come_back)


def damaged_in_one_byte() -> tuple[MemoryFileSystem, PartitionLog, DamagedRange, bytes]:
    fs, log = filled()
    base = log.segment_base_offsets[1]
    path = log.healing.segment_of(base).log_path
    right = fs.open(path).pread(log.healing.segment_of(base).size, 0)
    flip(fs, path, 150, 0x24)
    check_and_repair(log, base)
    (damaged,) = log.healing.damage
    return fs, log, damaged, right


def test_one_wrong_byte_is_corrected_when_no_other_copy_has_the_batch() -> None:
    fs, log, damaged, right = damaged_in_one_byte()
    rotten_fs, rotten = filled()
    flip(rotten_fs, rotten.healing.segment_of(damaged.base_offset).log_path, 160)
    source, reasons, _ = mend(log, damaged, AbsentSource(may_come_back=False), LogSource(rotten, "rotten"))
    assert source.startswith("their own checksum, as no other copy has them (byte 150 from")
    assert len(reasons) == 2
    assert fs.open(log.healing.segment_of(damaged.base_offset).log_path).pread(len(right), 0) == right
    check_and_repair(log, damaged.base_offset)
    assert not log.healing.is_damaged


def test_nothing_is_corrected_while_a_replica_that_is_in_sync_is_away() -> None:
    fs, log, damaged, right = damaged_in_one_byte()
    assert mend(log, damaged, AbsentSource(may_come_back=True))[0] == ""
    assert fs.open(log.healing.segment_of(damaged.base_offset).log_path).pread(len(right), 0) != right


def test_nothing_is_corrected_if_a_source_has_batches_that_may_be_others() -> None:
    _, log, damaged, _ = damaged_in_one_byte()
    other = open_test_log(config=SMALL_SEGMENTS)
    fill_with_transactions(other, 2)
    source, _, has_misfit = mend(log, damaged, AbsentSource(may_come_back=False), LogSource(other))
    assert (source, has_misfit) == ("", True)


def test_another_copy_comes_before_a_correction() -> None:
    _, log, damaged, _ = damaged_in_one_byte()
    _, other = filled()
    assert mend(log, damaged, AbsentSource(may_come_back=False), LogSource(other))[0] == "a copy"
