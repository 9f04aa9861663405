"""The simulation of overlapping flushes finds planted bugs: each of these must make it fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crabka.log.dirs.dir_writer import DirWriter
from crabka.log.partition.durability import LogDurability
from crabka.log.partition.flushing import FlushPlan
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.partition.truncation import LogTruncation
from tests.support.storage.flush_world import run_flushes

MAX_SEEDS = 300


def let_flushes_race(patch: pytest.MonkeyPatch) -> None:
    """Every part flushes by itself, and what a plan is about counts as durable when the plan is made."""
    begin, finish = LogDurability.begin_flush, LogDurability.finish_flush

    def begin_beside_others(log: LogDurability) -> FlushPlan | None:
        log._flush = None
        plan = begin(log)
        if plan is not None:
            log._state.leader_epochs.note_saved(plan.epochs_version)
            log._durable_names = plan.name_changes
        return plan

    def finish_any(log: LogDurability, plan: FlushPlan, now_ms: int | None = None) -> None:
        log._flush = plan
        finish(log, plan, now_ms)

    async def flush_at_once(writer: DirWriter, log: PartitionLog) -> None:
        plan = log.durability.begin_flush()
        if plan is not None:
            await writer.run(plan.run, lambda: log.durability.finish_flush(plan))

    patch.setattr(LogDurability, "begin_flush", begin_beside_others)
    patch.setattr(LogDurability, "finish_flush", finish_any)
    patch.setattr(DirWriter, "flush", flush_at_once)


def announce_only_below_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """A flush that is under way raises the recovery point above the cut."""

    def announce(log: LogTruncation, offset: int) -> None:
        if offset < log._state.recovery_point:
            log._state.recovery_point = offset
            log._state.truncations += 1

    patch.setattr(LogTruncation, "announce", announce)


def forget_what_was_announced(patch: pytest.MonkeyPatch) -> None:
    """A flush that begins between the announcement and the cut raises the recovery point."""

    def announce(log: LogTruncation, offset: int) -> None:
        log._state.recovery_point = min(log._state.recovery_point, offset)
        log._state.truncations += 1

    patch.setattr(LogTruncation, "announce", announce)


@pytest.mark.parametrize("plant", [let_flushes_race, announce_only_below_the_recovery_point, forget_what_was_announced])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(MAX_SEEDS):
        try:
            run_flushes(seed)
        except AssertionError as error:
            print(f"{plant.__name__} is found with seed {seed}: {error}")
            return
    pytest.fail(f"{plant.__name__} was not found")
