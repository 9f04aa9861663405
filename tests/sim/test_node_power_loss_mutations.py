"""The power-loss simulation finds what it is there to find: each planted bug breaks a named invariant.

Every bug takes away one step that makes something durable, or one check of what may not be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from crabka.log.dirs.log_manager import LogManager
from crabka.log.partition.flushing import FlushPlan
from crabka.log.recovery import segment_recovery
from crabka.ports import Buffer, FileSystem
from crabka.quorum.log.metadata_log import LogFlush
from crabka.vfs import write_atomic, write_guarded
from tests.support.power_loss.trace import BrokenInvariantError
from tests.support.power_loss.world import run_world

# Enough for each bug; the first that breaks an invariant ends the search.
SEEDS = range(1, 41)


def skip_fsync_of_the_metadata_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFlush, "run", lambda flush: flush.end_offset)


def replace_files_without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(fs: FileSystem, path: str, data: Buffer) -> None:
        file = fs.open(path + ".tmp", create=True)
        file.truncate(0)
        file.pwritev([data], 0)
        file.close()
        fs.rename(path + ".tmp", path)

    # Their importers hold the functions themselves.
    for function in (write_atomic, write_guarded):
        monkeypatch.setattr(function, "__code__", careless.__code__)


def trust_the_tail_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_recovery, "crc_valid", lambda *_: True)


def answer_delete_records_before_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(_logs: LogManager, _paths: Iterable[str]) -> None:
        pass

    monkeypatch.setattr(LogManager, "save_log_starts", forget)


def never_sync_new_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    run = FlushPlan.run
    monkeypatch.setattr(FlushPlan, "run", lambda plan: run(replace(plan, names=False)))


BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = [
    (skip_fsync_of_the_metadata_log, {"metadata survives"}),
    (replace_files_without_fsync, {"the node starts", "files decode", "metadata survives", "log start stays"}),
    (trust_the_tail_of_a_log, {"files decode"}),
    (answer_delete_records_before_its_checkpoint, {"log start stays"}),
    # A segment without a name is missing at the end of a log, or in its midst.
    (never_sync_new_directories, {"fsynced records survive", "files decode"}),
]


@pytest.mark.parametrize(("plant", "invariants"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], invariants: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    broken = (_broken_invariant(seed) for seed in SEEDS)
    assert next((name for name in broken if name is not None), "none") in invariants


def _broken_invariant(seed: int) -> str | None:
    try:
        run_world(random.Random(seed))
    except BrokenInvariantError as error:
        return error.name
    return None
