from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.clients.fetcher.offsets import EARLIEST
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import PlanContext
from crabka.spark.plan.history.divergence import LogCutError, ReadPosition
from crabka.spark.plan.history.histories import (
    Inspection,
    find_divergences,
    inspect_history,
    lineage_finding,
    take_witnesses,
)
from crabka.spark.plan.history.witnesses import BatchWitness, Chain, HistoryVerdict
from crabka.spark.plan.survey import PartitionSurvey, Survey
from tests.support.tiers.plans import options
from tests.support.tiers.planted import PlantedTier, batches, two_segments
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

O0 = TopicPartition("orders", 0)


class Leader:
    """A leader with a log of batches, as far as sessions ask it."""

    def __init__(self, log: bytes, epochs: Mapping[int, int], start: int = 0) -> None:
        self.headers = list(iter_headers(log))
        self.log = log
        self.epochs = epochs
        self.start = start

    @property
    def end(self) -> int:
        return self.headers[-1][1].last_offset + 1 if self.headers else 0

    def fetch(
        self, partition: TopicPartition, offset: int, limits: FetcherSettings, timeout_ms: int, *, topic_id: str | None
    ) -> FetchAnswer:
        assert (partition, limits.partition_max_bytes, topic_id) == (O0, 1, None)
        if not self.start <= offset <= self.end:
            return FetchAnswer(ErrorCode.offset_out_of_range, -1, -1, (), b"")
        position = next((at for at, header in self.headers if header.last_offset >= offset), len(self.log))
        return FetchAnswer(ErrorCode.none, self.end, self.start, (), self.log[position:])

    def offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        return {p: self.start if which == EARLIEST else self.end for p, which in timestamps.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochEnd]:
        return {
            p: LeaderEpochEnd(epoch, self.epochs[epoch]) if epoch in self.epochs else LeaderEpochEnd(-1, -1)
            for p, epoch in epochs.items()
        }


def context_of(leader: Leader) -> tuple[PlanContext, Survey]:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "orders", "fetchOffset.retryIntervalMs": "0"}
    context = PlanContext(SourceOptions.parse(given, streaming=False), leader, None)  # type: ignore[arg-type]
    return context, Survey({O0: PartitionSurvey(None, leader.start, leader.end)})


def chain_of(log: bytes, *last_offsets: int) -> Chain:
    wanted = {header.last_offset: BatchWitness.of(header) for _, header in iter_headers(log)}
    return tuple(wanted[offset] for offset in last_offsets)


OLD = batches(0, 12)
POSITION = ReadPosition(60, chain_of(OLD, 9, 29, 44, 59))


def refilled(at: int, count: int = 10, **more: int) -> bytes:
    """The old log, cut at an offset and filled with other records."""
    kept = [header for _, header in iter_headers(OLD) if header.last_offset < at]
    size = sum(header.size_in_bytes for header in kept)
    return OLD[:size] + batches(at, count, value=b"other", **more)


def test_a_log_that_only_grew_is_the_same() -> None:
    context, survey = context_of(Leader(OLD + batches(60, 3), {0: 75}))
    assert find_divergences(context, survey, {O0: POSITION}) == []


@pytest.mark.parametrize(
    ("log", "epochs", "expected"),
    [
        # Filled again in the same epoch: batches alone show it.
        (refilled(30, 12), {0: 90}, (30, 40)),
        (refilled(20, 12), {0: 80}, (10, 25)),
        (refilled(0, 20), {0: 100}, (0, 5)),
        # Filled again in another epoch, but not as far.
        (refilled(30, 2, epoch=1), {0: 30, 1: 40}, (30, 40)),
        # Not filled again.
        (OLD[: len(OLD) // 2], {0: 30}, (30, 30)),
        (b"", {}, (0, 0)),
    ],
)
def test_a_cut_is_found_and_located(log: bytes, epochs: dict[int, int], expected: tuple[int, int]) -> None:
    context, survey = context_of(Leader(log, epochs))
    (found,) = find_divergences(context, survey, {O0: POSITION})
    assert (found.partition, found.position) == (O0, 60)
    assert (found.agreed_offset, found.differs_offset) == expected


def test_a_position_without_witnesses_is_compared_with_the_end_only() -> None:
    """Tables of earlier versions have offsets alone."""
    context, survey = context_of(Leader(refilled(30, 12), {0: 90}))
    assert find_divergences(context, survey, {O0: ReadPosition(60)}) == []
    (found,) = find_divergences(context, survey, {O0: ReadPosition(99)})
    assert (found.agreed_offset, found.differs_offset) == (0, 90)


@pytest.mark.parametrize("start", [60, 65])
def test_what_retention_deleted_is_no_cut_if_the_epoch_agrees(start: int) -> None:
    log = batches(start, 6)
    context, survey = context_of(Leader(log, {0: start + 30}, start))
    assert find_divergences(context, survey, {O0: POSITION}) == []
    # The leader's log never was in the epoch of what was read, or left it before.
    for epochs in ({}, {0: 50, 1: 90}):
        context, survey = context_of(Leader(log, epochs, start))
        (found,) = find_divergences(context, survey, {O0: POSITION})
        assert (found.agreed_offset, found.log_start_offset) == (0, start)


def test_what_compaction_removed_or_rewrote_is_no_cut() -> None:
    without = OLD[: len(OLD) // 2] + batches(60, 2)
    context, survey = context_of(Leader(without, {0: 70}))
    assert find_divergences(context, survey, {O0: POSITION}) == []
    leader = Leader(OLD, {0: 60})
    last = leader.headers[-1]
    compacted = bytearray(OLD)
    compacted[last[0] + 17] ^= 0xFF  # the checksum
    compacted[last[0] + 57 : last[0] + 61] = (2).to_bytes(4)  # the number of records
    context, survey = context_of(Leader(bytes(compacted), {0: 60}))
    assert find_divergences(context, survey, {O0: POSITION}) == []
    compacted[last[0] + 57 : last[0] + 61] = (5).to_bytes(4)
    context, survey = context_of(Leader(bytes(compacted), {0: 60}))
    assert len(find_divergences(context, survey, {O0: POSITION})) == 1


def without_last(log: bytes, start: int, count: int) -> bytes:
    """A log whose batches from an offset on compaction removed, and that goes on after them."""
    kept = [header for _, header in iter_headers(log) if header.last_offset < start]
    return log[: sum(header.size_in_bytes for header in kept)] + batches(60, count)


def test_an_earlier_witness_shows_a_cut_whose_last_witness_was_compacted_away() -> None:
    """The epoch was used again, so it agrees."""
    log = without_last(refilled(20, 12), 50, 4)
    context, survey = context_of(Leader(log, {0: 80}))
    (found,) = find_divergences(context, survey, {O0: POSITION})
    assert (found.agreed_offset, found.differs_offset) == (10, 25)
    # Where no witness after the cut is left there is nothing to compare.
    context, survey = context_of(Leader(without_last(refilled(50, 4), 50, 4), {0: 80}))
    assert find_divergences(context, survey, {O0: POSITION}) == []


def test_an_earlier_epoch_shows_a_cut_whose_last_epoch_was_used_again() -> None:
    """A data dir was restored with its metadata: epoch 1 begins anew, and sooner."""
    old = batches(0, 6) + batches(30, 6, epoch=1)
    position = ReadPosition(60, chain_of(old, 14, 29, 44, 59))
    compacted = old[: len(old) // 6] + batches(60, 4, epoch=1)
    context, survey = context_of(Leader(compacted, {0: 30, 1: 80}))
    assert find_divergences(context, survey, {O0: position}) == []
    context, survey = context_of(Leader(compacted, {0: 20, 1: 80}))
    (found,) = find_divergences(context, survey, {O0: position})
    assert (found.agreed_offset, found.differs_offset) == (0, 20)
    # What retention deleted takes its epochs along.
    context, survey = context_of(Leader(batches(60, 4, epoch=1), {1: 80}, start=60))
    assert find_divergences(context, survey, {O0: position}) == []


def test_partitions_that_are_gone_are_left_to_others() -> None:
    context, survey = context_of(Leader(OLD, {0: 60}))
    assert find_divergences(context, survey, {TopicPartition("orders", 7): POSITION}) == []


def test_witnesses_are_taken_of_batches_that_are_there() -> None:
    log = batches(0, 2) + batches(20, 2)
    context, survey = context_of(Leader(log, {0: 30}))
    taken = take_witnesses(context, survey, {O0: [3, 12, 29]})
    assert taken == {O0: list(chain_of(log, 4, 29))}


def inspect(tier: PlantedTier, path: Path, position: ReadPosition | None, **more: str) -> Inspection:
    positions = {} if position is None else {O0: position}
    return inspect_history(options(write_tier(tier, path), **more), None, positions, {O0: [29, 59]})


def tier_with(first: bytes, second: bytes, epochs: list[tuple[int, int]]) -> PlantedTier:
    tier = PlantedTier(first_id=100)
    tier.add(first, epochs[:1])
    tier.add(second, epochs)
    return tier


def test_the_tier_alone_is_enough(tmp_path: Path) -> None:
    before = inspect(two_segments(), tmp_path / "1", None)
    chain = tuple(before.witnesses[O0])
    assert [witness.last_offset for witness in chain] == [29, 59]
    assert [witness.leader_epoch for witness in chain] == [0, 2]
    assert inspect(two_segments(), tmp_path / "2", ReadPosition(60, chain)).divergences == ()
    other = tier_with(batches(0, 6), batches(30, 8, value=b"other"), [(0, 0)])
    with pytest.raises(LogCutError, match="agree before offset 30 and differ from offset"):
        inspect(other, tmp_path / "3", ReadPosition(60, chain))
    passed_over = inspect(other, tmp_path / "4", ReadPosition(60, chain), failOnDataLoss="false")
    assert [found.rewind_offset for found in passed_over.divergences] == [30]


def test_a_tier_that_does_not_reach_so_far_says_nothing(tmp_path: Path) -> None:
    ahead = ReadPosition(90, chain_of(batches(60, 6, epoch=2), 89))
    assert inspect(two_segments(), tmp_path, ahead).divergences == ()


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        ([(0, 0)], HistoryVerdict.UNKNOWN),  # the tier is not there yet
        ([(0, 0), (2, 50)], HistoryVerdict.UNKNOWN),
        ([(2, 58), (3, 70)], HistoryVerdict.UNKNOWN),  # retention moved the start of the first epoch
        ([(3, 0)], HistoryVerdict.UNKNOWN),
        ([(0, 0), (2, 50), (3, 58)], HistoryVerdict.DIFFERENT),
        ([(0, 0), (3, 50)], HistoryVerdict.DIFFERENT),
        ([(0, 0), (2, 58)], HistoryVerdict.DIFFERENT),
        ([], HistoryVerdict.UNKNOWN),
    ],
)
def test_a_lineage_has_a_batch_in_its_epoch_or_not(lineage: list[tuple[int, int]], expected: HistoryVerdict) -> None:
    head = BatchWitness(55, 59, 2, 1, 1, 5)
    assert lineage_finding(lineage, head).verdict is expected
