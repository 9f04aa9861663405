"""The histories of a tiered partition find what they are there to find: every planted bug, within a few seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from crabka.broker.tiering import partition_tasks
from crabka.broker.tiering.bootstrap.leader_start import LeaderStart
from crabka.broker.tiering.copy import copier
from crabka.broker.tiering.copy.copier import CopyTask, SegmentCopier
from crabka.broker.tiering.copy.plan import copied_offset, lineage_of, plan_copy
from crabka.broker.tiering.expire import expirer, retention_plan
from crabka.broker.tiering.expire.expirer import ExpiryTask
from crabka.broker.tiering.expire.leftovers import LeftoverWatch
from crabka.broker.tiering.expire.retention_plan import Removal, RemovalReason, RetentionPlan, plan_retention
from crabka.broker.tiering.metadata.tier_metadata import PartitionLookup, TierMetadata
from crabka.formats.leader_epochs import EpochLineage
from crabka.log.partition.tierable import TierableSegment
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.support.tier_sim.cluster import TierCluster
from tests.support.tier_sim.model import ViolationError
from tests.support.tier_sim.world import TierHistoryWorld

MAX_SEEDS = 500


def copy_above_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    async def plan(task: CopyTask, copied: int) -> list[TierableSegment]:
        source = task._log
        await task._tools.flush_logs()
        start, end = source.log_start_offset, source.log_end_offset
        found = source.tiering.tierable_segments(max(copied + 1, start), end)
        return plan_copy(found, copied_offset=copied, log_start_offset=start, stable_offset=end)

    monkeypatch.setattr(CopyTask, "_plan", plan)


def choose_by_offset_and_not_by_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def finished(lookup: PartitionLookup) -> list[RemoteLogSegmentMetadata]:
        listed = lookup._metadata.list_remote_log_segments(lookup._partition)
        return [each for each in listed if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]

    def segment_at(lookup: PartitionLookup, _epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        return next((each for each in finished(lookup) if each.start_offset <= offset <= each.end_offset), None)

    def highest(lookup: PartitionLookup, _epoch: int) -> int | None:
        return max((each.end_offset for each in finished(lookup)), default=None)

    monkeypatch.setattr(PartitionLookup, "segment_at", segment_at)
    monkeypatch.setattr(PartitionLookup, "highest_offset", highest)


def delete_local_segments_before_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = SegmentCopier.copy

    async def hasty(self: SegmentCopier, partition: Any, source: Any, segment: TierableSegment) -> None:
        source.tiering.note_remote_offset(segment.end_offset)
        await copy(self, partition, source, segment)

    monkeypatch.setattr(SegmentCopier, "copy", hasty)


def count_twice_what_lies_in_two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_from(sizes: Any, offset: int) -> int:
        return sum(size for start, _, size in sizes.pieces if start >= offset)

    class CarelessSizes:
        from_offset = all_from

        def __init__(self, pieces: list[tuple[int, int, int]]) -> None:
            self.pieces = pieces

    monkeypatch.setattr(retention_plan, "_SizesAfter", CarelessSizes)


def delete_without_moving_the_log_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(_task: ExpiryTask, _offset: int) -> None:
        pass

    monkeypatch.setattr(ExpiryTask, "_move_log_start", forget)


def never_remove_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeftoverWatch, "abandoned", lambda *_args, **_options: [])


def rely_on_what_is_being_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(
        metadata: TierMetadata, partition: Any, source: Any, *, verified_offset: int = -1, without: Any = ()
    ) -> int:
        from_offset = max(source.local_log_start_offset, verified_offset + 1)
        copied = copied_offset(lineage_of(source), PartitionLookup(metadata, partition, without), from_offset)
        source.tiering.note_remote_offset(copied)
        return copied

    for module in (copier, partition_tasks):
        monkeypatch.setattr(module, "note_copied_offset", note)


def lead_an_empty_log_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def settle(*_args: object) -> None:
        pass

    monkeypatch.setattr(LeaderStart, "settle", settle)


def let_an_empty_log_delete_the_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(
        lineage: EpochLineage, segments: Iterable[RemoteLogSegmentMetadata], *args: Any, **options: Any
    ) -> RetentionPlan:
        listed = list(segments)
        planned = plan_retention(lineage, listed, *args, **options)
        finished = [each for each in listed if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
        older = [each for each in finished if each.leader_epochs[-1][0] < lineage.epochs[0]]
        removals = [Removal(each, RemovalReason.UNREFERENCED) for each in older]
        return replace(planned, removals=(*planned.removals, *removals))

    monkeypatch.setattr(expirer, "plan_retention", plan)
    # A log that goes on after the end of the tier knows all of it.
    lead_an_empty_log_from_its_start(monkeypatch)
    monkeypatch.setattr(TierCluster, "_check_end", lambda *_: None)


# With a seed that finds the bug; if histories change, another one will.
BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], int]] = [
    (copy_above_the_high_watermark, 0),
    (choose_by_offset_and_not_by_history, 452),
    (delete_local_segments_before_they_are_copied, 19),
    (count_twice_what_lies_in_two_places, 4),
    (delete_without_moving_the_log_start, 19),
    (never_remove_leftovers, 22),
    (rely_on_what_is_being_removed, 437),
]


def search(seeds: Iterable[int]) -> None:
    """Live one history after the other. Raises ViolationError."""
    for seed in seeds:
        TierHistoryWorld(seed).run()


@pytest.mark.parametrize(("bug", "likely_seed"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], likely_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(ViolationError):
        search([likely_seed, *range(MAX_SEEDS)])


DISK_BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], int]] = [
    (lead_an_empty_log_from_its_start, 11),
    (let_an_empty_log_delete_the_tier, 11),
]


@pytest.mark.parametrize(("bug", "likely_seed"), DISK_BUGS, ids=[bug.__name__ for bug, _ in DISK_BUGS])
def test_a_planted_bug_of_lost_disks_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], likely_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    TierHistoryWorld(likely_seed, loses_disks=True).run()
    bug(monkeypatch)
    with pytest.raises(ViolationError):
        TierHistoryWorld(likely_seed, loses_disks=True).run()
