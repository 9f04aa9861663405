"""The power fails after every single operation of a cleaning: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random

import pytest

from crabka.log.partition.partition_log import PartitionLog
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.scale import scaled
from tests.support.storage.cleaning import clean
from tests.support.storage.compaction_model import (
    TRANSACTIONAL_PRODUCERS,
    CompactedLog,
    KeyedRow,
    ProducerFacts,
    check_reads,
    committed_rows,
    data_rows,
    producer_facts,
    work,
)
from tests.support.storage.small import LOG_PATH

STEPS = 18
# What a crash can distinguish; reads in between change nothing.
CHANGES = frozenset({"open", "pwritev", "truncate", "fsync", "fsync_dir", "rename", "unlink"})


class PowerCutError(BaseException):
    """Not an Exception: nothing may handle it."""


class PowerCut:
    """Fails after so many changes of the disk."""

    def __init__(self, changes: int) -> None:
        self._left = changes

    def __call__(self, operation: str, _path: str) -> None:
        if operation in CHANGES:
            if not self._left:
                raise PowerCutError
            self._left -= 1


def _failing(disk: MemoryFileSystem, changes: int) -> FaultyFileSystem:
    return FaultyFileSystem(disk, [FaultRule(before=PowerCut(changes))])


class Scene:
    """A log before a cleaning, and what must be true after it."""

    def __init__(self, seed: int) -> None:
        self.world = CompactedLog(random.Random(seed))
        for cleaning in (True, False):
            for _ in work(self.world, STEPS, cleaning=cleaning):
                pass
        for _ in TRANSACTIONAL_PRODUCERS:
            self.world.end_transaction()
        self.world.roll()
        self.world.log.flush()
        self.recovery_point = self.world.log.durability.checkpoint_recovery_point
        self.first_dirty = self.world.clean_end
        self.before = self.world.rows_alive()
        self.committed_before = committed_rows(self.world.log)
        self.producers: ProducerFacts = producer_facts(self.world.log)
        self.disk: MemoryFileSystem = self.world.memory.clone()
        self.world.clean()
        self.after = self.world.rows_alive()
        self.committed_after = committed_rows(self.world.log)

    def run(self, changes: int) -> tuple[MemoryFileSystem, bool]:
        """Clean on a copy of the disk that fails after so many changes; return it, and whether all was done."""
        disk = self.disk.clone()
        faulty = FaultyFileSystem(disk)
        log = self.world.reopen(self.recovery_point, faulty)
        log.flush()
        faulty.add(FaultRule(before=PowerCut(changes)))
        try:
            clean(log, first_dirty=self.first_dirty, now_ms=self.world.now_ms)
        except PowerCutError:
            return disk, False
        return disk, True

    def check(self, disk: MemoryFileSystem) -> None:
        log = self.world.reopen(self.recovery_point, disk)
        rows = data_rows(log)
        assert _is_between(rows, self.after, self.before)
        assert _is_between(committed_rows(log), self.committed_after, self.committed_before)
        assert producer_facts(log) == self.producers
        assert _leftovers(disk) == []
        self._check_cleaning_again(log)

    def _check_cleaning_again(self, log: PartitionLog) -> None:
        clean(log, first_dirty=self.first_dirty, now_ms=self.world.now_ms)
        rows = data_rows(log)
        assert rows == self.after
        check_reads(log, rows)
        assert committed_rows(log) == self.committed_after
        assert producer_facts(log) == self.producers


def _is_between(rows: list[KeyedRow], fewest: list[KeyedRow], most: list[KeyedRow]) -> bool:
    offsets = [row.offset for row in rows]
    return offsets == sorted(set(offsets)) and set(fewest) <= set(rows) <= set(most)


def _leftovers(disk: MemoryFileSystem) -> list[str]:
    return [name for name in disk.listdir(LOG_PATH) if name.endswith((".cleaned", ".swap", ".deleted"))]


@pytest.mark.parametrize("seed", range(scaled(3, 200)))
def test_a_power_cut_after_any_change_of_a_cleaning_loses_nothing(seed: int) -> None:
    scene = Scene(seed)
    assert len(scene.after) < len(scene.before)
    changes = 0
    finished = False
    while not finished:
        disk, finished = scene.run(changes)
        for rng in (None, random.Random(changes)):
            survivor = disk.clone()
            survivor.crash(rng, block_bytes=512)
            scene.check(survivor)
        # The process dies, the machine does not.
        scene.check(disk)
        changes += 1
    assert changes > 20


@pytest.mark.parametrize("seed", range(scaled(1, 100)))
def test_a_power_cut_while_an_interrupted_swap_is_completed_loses_nothing(seed: int) -> None:
    scene = Scene(seed)
    changes = 0
    finished = False
    while not finished:
        disk, finished = scene.run(changes)
        disk.crash(random.Random(changes), block_bytes=512)
        opening = 0
        is_open = not _underway(disk)
        while not is_open:
            survivor = disk.clone()
            is_open = _open_with_power_cut(scene, survivor, opening)
            survivor.crash(random.Random(opening), block_bytes=512)
            scene.check(survivor)
            opening += 1
        changes += 1


def _underway(disk: MemoryFileSystem) -> list[str]:
    return [name for name in disk.listdir(LOG_PATH) if name.endswith((".cleaned", ".swap"))]


def _open_with_power_cut(scene: Scene, disk: MemoryFileSystem, changes: int) -> bool:
    try:
        scene.world.reopen(scene.recovery_point, _failing(disk, changes))
    except PowerCutError:
        return False
    return True
