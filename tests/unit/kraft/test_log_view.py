from __future__ import annotations

import pytest

from crabka.kraft.log_view import FetchPosition, OffsetAndEpoch, end_of_log, judge_position, truncation_offset
from tests.support.kraft_sim.disk import Entry, SimulatedLog, SnapshotFile
from tests.support.quorum.kraft_bench import voter_set


def log_of(*epochs: int) -> SimulatedLog:
    log = SimulatedLog()
    log.append(tuple(Entry(epoch, index) for index, epoch in enumerate(epochs)))
    return log


def snapshotted(*epochs: int, at: int, prune: bool = True) -> SimulatedLog:
    log = log_of(*epochs)
    snapshot = OffsetAndEpoch(at, epochs[at - 1])
    log.snapshots[snapshot] = SnapshotFile(voter_set(1), 1, b"data")
    if prune:
        log.prune(snapshot)
    return log


@pytest.mark.parametrize(
    ("offset", "epoch", "kind", "answer"),
    [
        (0, 0, FetchPosition.VALID, (0, 0)),
        (2, 1, FetchPosition.VALID, (2, 1)),
        (5, 4, FetchPosition.VALID, (5, 4)),
        # Longer than the leader in an epoch that both have.
        (3, 1, FetchPosition.DIVERGING, (2, 1)),
        (6, 4, FetchPosition.DIVERGING, (5, 4)),
        # An epoch that the leader never had.
        (4, 2, FetchPosition.DIVERGING, (2, 1)),
        (4, 3, FetchPosition.VALID, (4, 3)),
    ],
)
def test_a_position_in_the_log_is_judged_by_its_epoch(
    offset: int, epoch: int, kind: FetchPosition, answer: tuple[int, int]
) -> None:
    assert judge_position(log_of(1, 1, 3, 3, 4), offset, epoch) == (kind, OffsetAndEpoch(*answer))


@pytest.mark.parametrize(
    ("offset", "epoch", "kind"),
    [
        (1, 1, FetchPosition.SNAPSHOT),
        (2, 1, FetchPosition.VALID),
        (2, 0, FetchPosition.SNAPSHOT),
        (3, 0, FetchPosition.SNAPSHOT),
        (3, 3, FetchPosition.VALID),
        (0, 0, FetchPosition.SNAPSHOT),
    ],
)
def test_a_position_before_the_log_gets_the_snapshot(offset: int, epoch: int, kind: FetchPosition) -> None:
    assert judge_position(snapshotted(1, 1, 3, 3, at=2), offset, epoch)[0] is kind


def test_an_empty_replica_gets_the_snapshot_even_if_the_log_is_whole() -> None:
    log = snapshotted(1, 1, 3, at=2, prune=False)
    assert judge_position(log, 0, 0) == (FetchPosition.SNAPSHOT, OffsetAndEpoch(2, 1))


def test_the_snapshot_of_formatting_is_never_sent() -> None:
    log = log_of(1, 1)
    log.snapshots[OffsetAndEpoch(0, 0)] = SnapshotFile(voter_set(1), 1, b"data")
    assert judge_position(log, 0, 0)[0] is FetchPosition.VALID


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [((2, 1), 2), ((1, 1), 1), ((9, 1), 2), ((4, 2), 2), ((4, 4), 5), ((0, 0), 0)],
)
def test_a_follower_cuts_at_the_end_of_the_common_epoch(diverging: tuple[int, int], offset: int) -> None:
    assert truncation_offset(log_of(1, 1, 3, 3, 3), OffsetAndEpoch(*diverging)) == offset


def test_the_later_epoch_is_more_recent_than_the_longer_log() -> None:
    assert OffsetAndEpoch(3, 2).recency > OffsetAndEpoch(9, 1).recency
    assert OffsetAndEpoch(4, 2).recency > OffsetAndEpoch(3, 2).recency
    assert str(end_of_log(log_of(1, 2))) == "2@2"
    assert end_of_log(snapshotted(1, 1, at=2)) == OffsetAndEpoch(2, 1)
