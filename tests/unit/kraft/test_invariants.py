from __future__ import annotations

from collections.abc import Callable

import pytest

from crabka.errors import InvariantError
from crabka.kraft.actions import ElectionState
from crabka.kraft.invariants import check_log_start
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.roles import RoleName
from tests.support.kraft_sim.disk import Entry, SimulatedLog, SnapshotFile
from tests.support.quorum.kraft_bench import CoreBench, voter, voter_set

FILE = SnapshotFile(voter_set(1), 1, b"")


def follow(bench: CoreBench) -> None:
    bench.follow(2, 3)


@pytest.mark.parametrize(
    ("prepare", "election", "message"),
    [
        (CoreBench.lead, ElectionState(1, None, voter(1).key), "does not know that it leads"),
        (CoreBench.lead, ElectionState(1, 1), "did not vote for itself"),
        (CoreBench.stand, ElectionState(1), "candidate is not its own"),
        (follow, ElectionState(3, 3), "another node"),
        (lambda _bench: None, ElectionState(0, 1), "forgot that it leads"),
    ],
)
def test_a_role_and_an_election_that_contradict_are_found(
    prepare: Callable[[CoreBench], object], election: ElectionState, message: str
) -> None:
    bench = CoreBench()
    prepare(bench)
    bench.core.check_invariants()
    bench.core._state.election = election
    with pytest.raises(InvariantError, match=message):
        bench.core.check_invariants()


def test_more_durable_than_there_is_is_found() -> None:
    bench = CoreBench()
    bench.core._state.flushed_offset = 1
    with pytest.raises(InvariantError, match="more is durable"):
        bench.core.check_invariants()


def test_a_high_watermark_above_the_log_end_is_found() -> None:
    bench = CoreBench()
    bench.core._state.high_watermark = 1
    with pytest.raises(InvariantError, match="above the log end"):
        bench.core.check_invariants()


def test_a_log_of_a_later_epoch_is_found() -> None:
    bench = CoreBench()
    bench.log.append((Entry(9, 0),))
    with pytest.raises(InvariantError, match="epoch 9"):
        bench.core.check_invariants()


@pytest.mark.parametrize(
    ("start", "snapshot", "high_watermark", "message"),
    [
        (0, None, None, None),
        (3, None, 5, "no snapshot"),
        (3, 3, 3, None),
        (3, 5, 9, None),
        (6, 5, 9, "gap"),
        (0, 5, 4, "not committed"),
        (0, 5, None, "not committed"),
    ],
)
def test_a_log_start_needs_a_committed_snapshot(
    start: int, snapshot: int | None, high_watermark: int | None, message: str | None
) -> None:
    log = SimulatedLog(start_offset=start)
    if snapshot is not None:
        log.snapshots[OffsetAndEpoch(snapshot, 1)] = FILE
    if message is None:
        check_log_start(log, high_watermark)
        return
    with pytest.raises(InvariantError, match=message):
        check_log_start(log, high_watermark)


def test_a_replica_that_lost_entries_must_not_stand() -> None:
    bench = CoreBench(voters=(1, 2, 3))
    bench.pass_time(10_000)
    assert bench.role() is RoleName.PROSPECTIVE
    bench.core._state.lost_end = OffsetAndEpoch(4, 1)
    with pytest.raises(InvariantError, match="lost durable entries"):
        bench.core.check_invariants()
