"""The view of the cleaner on a log, and how cleaned segments are installed."""

from __future__ import annotations

from dataclasses import replace

from crabka.config.topic import TopicConfig
from crabka.log.cleaner.cleaning_pass import GroupCopier, RecordFilter
from crabka.log.cleaner.offset_map import OffsetMap
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.segment.context import SegmentContext
from tests.support.storage.cleaning import clean
from tests.support.storage.small import (
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
    read_batches,
    read_headers,
)

COMPACT = TopicConfig(cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=500)
SIZE = len(make_batch(1))


def three_segments(context: SegmentContext | None = None, config: TopicConfig = COMPACT) -> PartitionLog:
    """Two sealed segments with offsets 0-1 and 2-3, and 4 in the active one; all have one key."""
    log = open_test_log(context, config)
    for index in range(5):
        append(log, make_batch(1, timestamp=NOW_MS + index))
        if index in (1, 3):
            log.roll(NOW_MS)
    return log


def test_sealed_segments_after_the_clean_part_are_dirty() -> None:
    log = three_segments()
    part = log.cleaning.survey(2, NOW_MS)()
    assert (part.first_dirty, part.first_uncleanable) == (2, 4)
    assert (part.clean_bytes, part.cleanable_bytes, part.dirty_ratio) == (2 * SIZE, 2 * SIZE, 0.5)
    assert log.cleaning.may_be_dirty(2)
    assert not log.cleaning.may_be_dirty(4)


def test_a_checkpoint_that_cannot_be_right_is_not_believed() -> None:
    log = three_segments()
    assert log.cleaning.survey(99, NOW_MS)().first_dirty == 0
    log.retention.delete_records_before(2)
    assert log.cleaning.survey(1, NOW_MS)().first_dirty == 2


def test_young_records_wait() -> None:
    log = three_segments(config=replace(COMPACT, min_compaction_lag_ms=1000))
    assert log.cleaning.survey(0, NOW_MS + 1001)().first_uncleanable == 2
    assert log.cleaning.survey(0, NOW_MS + 1000)().cleanable_bytes == 0


def test_the_age_of_the_dirty_part_counts_from_its_first_batches() -> None:
    log = three_segments(config=replace(COMPACT, max_compaction_lag_ms=1000))
    assert log.cleaning.survey(0, NOW_MS)().oldest_dirty_ms == NOW_MS
    assert log.cleaning.survey(2, NOW_MS)().oldest_dirty_ms == NOW_MS + 2


def test_an_open_transaction_limits_the_dirty_part() -> None:
    log = open_test_log(config=COMPACT)
    append(log, make_batch(1))
    log.roll(NOW_MS)
    append(log, make_batch(1, producer=ProducerFields(1), transactional=True))
    log.roll(NOW_MS)
    assert log.cleaning.survey(0, NOW_MS)().first_uncleanable == 1
    assert not log.cleaning.may_be_dirty(1)


def test_cleaned_segments_take_the_place_of_their_group() -> None:
    due: list[tuple[str, int]] = []
    context = make_context()
    context.schedule_deletion = lambda path, at: due.append((path.rsplit("/", 1)[1].lstrip("0"), at))
    log = three_segments(context)
    clean(log, now_ms=NOW_MS)
    assert log.segment_base_offsets == [0, 4]
    assert [header.base_offset for header in read_headers(log)] == [3, 4]
    assert {name for name, _ in due} >= {".log.deleted", "2.log.deleted"}
    assert {at for _, at in due} == {NOW_MS + 500}
    assert f"{2:020d}.snapshot" not in context.fs.listdir(log.path)


def test_readers_of_the_old_segments_go_on() -> None:
    log = three_segments()
    plan = log.read(0, max_bytes=1000)
    before = plan.read()
    old = log.cleaning.begin_pass(log.cleaning.survey(0, NOW_MS)(), NOW_MS).segments
    clean(log, now_ms=NOW_MS)
    assert plan.read() == before
    assert [header.base_offset for segment in old for _, header in segment.headers()] == [0, 1, 2, 3]
    assert old[0].read_max_timestamp().timestamp == NOW_MS + 1


def test_a_group_that_changed_meanwhile_is_left_alone() -> None:
    log = three_segments()
    view = log.cleaning.begin_pass(log.cleaning.survey(0, NOW_MS)(), NOW_MS)
    copier = GroupCopier(view, view.segments, RecordFilter(view, OffsetMap(1000, 0.9, 9)))
    list(copier.steps())
    assert copier.cleaned is not None
    log.retention.delete_records_before(2)
    log.retention.delete_below_log_start(NOW_MS)
    before = read_batches(log)
    assert not log.cleaning.replace_segments(view.segments, copier.cleaned, NOW_MS)
    copier.discard()
    assert read_batches(log) == before


def test_a_truncation_is_counted() -> None:
    log = three_segments()
    log.truncation.truncate_to(3)
    assert log.cleaning.truncation_count == 1


def test_a_compacted_segment_rolls_in_time_for_the_cleaner() -> None:
    config = replace(COMPACT, max_compaction_lag_ms=1000)
    log = open_test_log(config=config)
    append(log, make_batch(1))
    assert not log.roll_if_needed(NOW_MS + 1000)
    assert log.roll_if_needed(NOW_MS + 1001)
