"""The planners of tiering against the plainest models of what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.broker.tiering.copy.plan import copied_offset, highest_remote_offset
from crabka.broker.tiering.expire.retention_plan import LogExtent, RemovalReason, RetentionLimits, plan_retention
from crabka.formats.leader_epochs import EpochLineage
from crabka.log.partition.tierable import SegmentExtent
from crabka.remote.segments import RemoteLogSegmentMetadata
from tests.support.tiers.segment_metadata import DELETING, FINISHED, STARTED, ListedSegments, remote_segment

MAX_OFFSET = 40
NOW_MS = 1000


@st.composite
def histories(draw: st.DrawFn, *, end: int | None = None) -> tuple[list[tuple[int, int]], int]:
    """Epochs with first offsets from 0 on, and where the log ends."""
    end_offset = draw(st.integers(1, MAX_OFFSET)) if end is None else end
    starts = sorted(draw(st.sets(st.integers(0, end_offset - 1), max_size=4)) | {0})
    epochs = sorted(draw(st.sets(st.integers(0, 8), min_size=len(starts), max_size=len(starts))))
    return list(zip(epochs, starts, strict=True)), end_offset


def cut(history: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return the epochs of [start, end] as the metadata of a segment has them."""
    ends = [first for _, first in history[1:]] + [MAX_OFFSET + 1]
    return [
        (epoch, max(first, start))
        for (epoch, first), after in zip(history, ends, strict=True)
        if first <= end and after > start
    ]


@st.composite
def tiers(draw: st.DrawFn) -> list[RemoteLogSegmentMetadata]:
    """Segments of one or two histories in all states."""
    segments = []
    for number in range(draw(st.integers(0, 6))):
        history, end_offset = draw(histories(end=MAX_OFFSET))
        start = draw(st.integers(0, end_offset - 1))
        end = draw(st.integers(start, end_offset - 1))
        segments.append(
            remote_segment(
                start,
                end,
                epochs=cut(history, start, end),
                number=number,
                state=draw(st.sampled_from([FINISHED, FINISHED, STARTED, DELETING])),
                size=draw(st.integers(0, 300)),
                newest_ms=draw(st.integers(-1, NOW_MS)),
            )
        )
    return segments


@given(histories(), tiers(), st.integers(0, MAX_OFFSET), st.dictionaries(st.integers(0, 8), st.integers(0, MAX_OFFSET)))
def test_what_counts_as_copied_is_in_the_tier(
    history: tuple[list[tuple[int, int]], int],
    tier: list[RemoteLogSegmentMetadata],
    local_start: int,
    ever: dict[int, int],
) -> None:
    entries, end_offset = history
    lineage, listed = EpochLineage(entries, end_offset), ListedSegments(tier, ever)
    copied = copied_offset(lineage, listed, local_start)
    assert copied <= highest_remote_offset(lineage, listed) < end_offset
    for offset in range(local_start, copied + 1):
        epoch = lineage.epoch_at(offset)
        assert epoch is not None
        assert listed.segment_at(epoch, offset) is not None
    # And it is no less: the next offset is not there, or it was never copied.
    following = max(copied + 1, local_start)
    if following <= highest_remote_offset(lineage, listed):
        epoch = lineage.epoch_at(following)
        assert epoch is None or listed.segment_at(epoch, following) is None


@given(histories(end=MAX_OFFSET), tiers())
def test_a_segment_of_a_history_is_one_that_could_have_been_copied_from_it(
    history: tuple[list[tuple[int, int]], int], tier: list[RemoteLogSegmentMetadata]
) -> None:
    entries, end_offset = history
    lineage = EpochLineage(entries, end_offset)
    for segment in tier:
        same = list(segment.leader_epochs) == cut(entries, segment.start_offset, segment.end_offset)
        assert lineage.holds(segment.leader_epochs, segment.end_offset) == same


@st.composite
def chains(draw: st.DrawFn) -> list[RemoteLogSegmentMetadata]:
    """Segments one after the other, of one epoch."""
    segments, start = [], 0
    for number in range(draw(st.integers(0, 8))):
        end = start + draw(st.integers(0, 4))
        newest_ms = draw(st.integers(-1, NOW_MS))
        size = draw(st.integers(1, 300))
        segments.append(remote_segment(start, end, number=number, size=size, newest_ms=newest_ms))
        start = end + 1
    return segments


@given(chains(), st.integers(-1, NOW_MS), st.integers(-1, 1500), st.integers(0, 500), st.integers(0, 50))
def test_retention_removes_the_longest_prefix_that_it_may(
    chain: list[RemoteLogSegmentMetadata], retention_ms: int, retention_bytes: int, local_bytes: int, log_start: int
) -> None:
    end_offset = 100
    local = [SegmentExtent(90, end_offset - 1, local_bytes)]
    plan = plan_retention(
        EpochLineage([(0, log_start)], end_offset),
        chain,
        LogExtent(log_start_offset=log_start, high_watermark=end_offset, local=local),
        RetentionLimits(retention_ms=retention_ms, retention_bytes=retention_bytes),
        now_ms=NOW_MS,
    )
    kept = [segment for segment in chain if segment.end_offset >= log_start]
    total = local_bytes + sum(segment.segment_size_bytes for segment in kept)
    expected_start = log_start
    while kept:
        oldest = kept[0]
        too_old = retention_ms >= 0 and 0 <= oldest.max_timestamp_ms <= NOW_MS - retention_ms
        too_much = (
            retention_bytes >= 0 and total > retention_bytes and total - oldest.segment_size_bytes >= retention_bytes
        )
        if not (too_old or too_much):
            break
        kept.pop(0)
        total -= oldest.segment_size_bytes
        expected_start = oldest.end_offset + 1
    removed = {removal.segment.segment_id for removal in plan.removals}
    assert removed == {segment.segment_id for segment in chain} - {segment.segment_id for segment in kept}
    assert (plan.log_start_offset or log_start) == expected_start


@given(
    histories(end=MAX_OFFSET),
    tiers(),
    st.integers(-1, NOW_MS),
    st.integers(-1, 1500),
    st.integers(0, MAX_OFFSET - 1),
)
def test_retention_takes_nothing_that_a_reader_may_still_want(
    history: tuple[list[tuple[int, int]], int],
    tier: list[RemoteLogSegmentMetadata],
    retention_ms: int,
    retention_bytes: int,
    log_start: int,
) -> None:
    entries, end_offset = history
    lineage = EpochLineage([(e, max(s, log_start)) for e, s in cut(entries, log_start, end_offset)], end_offset)
    extent = LogExtent(log_start_offset=log_start, high_watermark=end_offset)
    limits = RetentionLimits(retention_ms=retention_ms, retention_bytes=retention_bytes)
    plan = plan_retention(lineage, tier, extent, limits, now_ms=NOW_MS)
    start = log_start if plan.log_start_offset is None else plan.log_start_offset
    assert log_start <= start <= end_offset
    seen = [removal.segment.segment_id for removal in plan.removals]
    assert len(seen) == len(set(seen))
    for segment, reason in plan.removals:
        # No reader finds it from the new log start on.
        readable = [offset for offset in range(start, segment.end_offset + 1) if offset >= segment.start_offset]
        by_epoch = {lineage.epoch_at(offset) for offset in readable} & {epoch for epoch, _ in segment.leader_epochs}
        assert reason in (RemovalReason.UNFINISHED, RemovalReason.UNREFERENCED) or not by_epoch
        assert segment.state is (DELETING if reason is RemovalReason.UNFINISHED else FINISHED)
        if reason is RemovalReason.TIME:
            assert segment.max_timestamp_ms >= 0
        if reason is RemovalReason.UNREFERENCED:
            assert all(epoch < lineage.epochs[0] for epoch, _ in segment.leader_epochs)
