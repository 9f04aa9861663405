from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.compaction import compact_once
from crabka.spark.lake.maintenance.rewinding import RewindStep, rewind_table
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import SyncStep, TopicSync
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.plan.history.divergence import LogCutError
from tests.support.spark.lake_reader import table_places, table_rows
from tests.support.spark.lake_tables import ALL_FORMATS, lake_of
from tests.support.spark.lake_topic import InlineRunner, ListTopic

pytestmark = pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections")

SETTINGS = SyncSettings(decoder=JsonValues((), infers=True), round_bytes=12_000, min_tasks=1)


class _DiedError(Exception):
    pass


@pytest.fixture(params=ALL_FORMATS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_of(tmp_path, request.param)


@pytest.fixture
def plain_lake(tmp_path: Path) -> Lake:
    """For what does not depend on the format."""
    return lake_of(tmp_path, "parquet")


def value(offset: int, what: str) -> bytes:
    return b"{broken " + what.encode() if is_bad(offset) else json.dumps({"id": offset, "what": what}).encode()


def is_bad(offset: int) -> bool:
    return offset % 5 == 3


def topic_of(*logs: Sequence[str]) -> ListTopic:
    """Partitions by what their records say; every fifth value is bad."""
    return ListTopic([[value(offset, what) for offset, what in enumerate(log)] for log in logs])


def bring(lake: Lake, topic: ListTopic, settings: SyncSettings = SETTINGS) -> None:
    sync = TopicSync(lake, topic, InlineRunner(), settings, topic="orders")
    while sync.run_round() is not None:
        pass


def check(lake: Lake, topic: ListTopic) -> None:
    """The table is the topic, and the dead letters are what it lacks."""
    expected = [
        (partition, offset, json.loads(content)["what"])
        for partition, values in enumerate(topic.values)
        for offset, content in enumerate(values)
        if not is_bad(offset)
    ]
    rows = table_rows(Path(lake.root), "orders", lake.table_format)
    # Delta's files do not have the column that their table is partitioned by.
    assert [(row["kafka_partition"], row["kafka_offset"], row["what"]) for row in rows] == expected
    bad = [
        (partition, offset, content)
        for partition, values in enumerate(topic.values)
        for offset, content in enumerate(values)
        if is_bad(offset)
    ]
    letters = table_rows(Path(lake.root), "orders_dlq", lake.table_format)
    assert [(row["kafka_partition"], row["kafka_offset"], row["value"]) for row in letters] == bad


OLD = topic_of(["old"] * 30, ["old"] * 12)
CUT = topic_of(["old"] * 17 + ["new"] * 25, ["old"] * 14)


def test_a_log_that_was_cut_and_filled_again_stops_the_sync_until_a_rewind(lake: Lake) -> None:
    bring(lake, OLD)
    with pytest.raises(LogCutError, match=r"orders-0 was cut.*`crabka lake rewind orders --execute` removes the rows"):
        bring(lake, CUT)
    check(lake, OLD)
    (rewound,) = rewind_table(lake, "orders", CUT)
    assert (rewound.partition, rewound.position) == (0, 30)
    assert 10 <= rewound.rewound_to <= 17
    assert table_places(Path(lake.root), "orders", lake.table_format)[-1] == (1, 11)
    bring(lake, CUT)
    check(lake, CUT)
    assert rewind_table(lake, "orders", CUT) == []


def test_a_log_that_ends_before_the_table_is_reported_as_cut(plain_lake: Lake) -> None:
    bring(plain_lake, OLD)
    short = topic_of(["old"] * 8, ["old"] * 12)
    with pytest.raises(LogCutError, match="differ from offset"):
        bring(plain_lake, short)
    rewind_table(plain_lake, "orders", short)
    bring(plain_lake, short)
    check(plain_lake, short)


@pytest.mark.parametrize("partition_by", ["kafka_partition", "date"])
def test_partitioned_and_compacted_tables_are_rewound_too(lake: Lake, partition_by: str) -> None:
    decoder = JsonValues((), infers=True)
    settings = SyncSettings(decoder=decoder, partition_by=partition_by, round_bytes=12_000, min_tasks=1)
    bring(lake, OLD, settings)
    table = lake.open("orders")
    assert table is not None
    compact_once(table, 1 << 30)
    rewind_table(lake, "orders", CUT)
    bring(lake, CUT, settings)
    table = lake.open("orders")
    assert table is not None
    assert sum(file.rows for file in table.files()) == sum(
        not is_bad(offset) for values in CUT.values for offset in range(len(values))
    )


@pytest.mark.parametrize("step", list(RewindStep))
def test_a_rewind_that_dies_is_done_by_the_next_one(lake: Lake, step: RewindStep) -> None:
    bring(lake, OLD)

    def on_step(at: RewindStep) -> None:
        if at is step:
            raise _DiedError

    with pytest.raises(_DiedError):
        rewind_table(lake, "orders", CUT, on_step)
    if step is not RewindStep.REWOUND:
        with pytest.raises(LogCutError):
            bring(lake, CUT)
    rewind_table(lake, "orders", CUT)
    bring(lake, CUT)
    check(lake, CUT)


def at_first(step: RewindStep, act: Callable[[], object]) -> Callable[[RewindStep], None]:
    waiting = [act]

    def on_step(at: RewindStep) -> None:
        if at is step and waiting:
            waiting.pop()()

    return on_step


def test_of_two_rewinds_at_once_both_end_well(plain_lake: Lake) -> None:
    bring(plain_lake, OLD)
    other = at_first(RewindStep.WRITTEN, lambda: rewind_table(plain_lake, "orders", CUT))
    rewind_table(plain_lake, "orders", CUT, other)
    bring(plain_lake, CUT)
    check(plain_lake, CUT)


@pytest.mark.parametrize("step", list(RewindStep))
def test_a_sync_meanwhile_stops_or_goes_on_after_the_rewind(plain_lake: Lake, step: RewindStep) -> None:
    bring(plain_lake, OLD)
    seen: list[bool] = []

    def sync() -> None:
        try:
            bring(plain_lake, CUT)
            seen.append(True)
        except LogCutError:
            seen.append(False)

    rewind_table(plain_lake, "orders", CUT, at_first(step, sync))
    assert seen == [step is RewindStep.REWOUND]
    bring(plain_lake, CUT)
    check(plain_lake, CUT)


def overtaken(lake: Lake, step: SyncStep) -> None:
    """A sync of the old log, in the middle of which the log is cut and the table rewound."""
    bring(lake, topic_of(["old"] * 20, ["old"] * 12))
    topic = topic_of(["old"] * 30, ["old"] * 12)
    waiting = [topic]

    def on_step(at: SyncStep) -> None:
        if at is step and waiting:
            waiting.pop().values[:] = CUT.values
            rewind_table(lake, "orders", topic)

    sync = TopicSync(lake, topic, InlineRunner(), SETTINGS, topic="orders", on_step=on_step)
    with contextlib.suppress(LogCutError):  # of the position that it began with
        while sync.run_round() is not None:
            pass
    assert not waiting
    # Without another rewind: nothing of the old log came after the first one.
    bring(lake, CUT)
    check(lake, CUT)


@pytest.mark.parametrize("step", [step for step in SyncStep if step is not SyncStep.EVOLVED])
def test_a_sync_of_the_old_log_does_not_commit_over_a_rewind(plain_lake: Lake, step: SyncStep) -> None:
    overtaken(plain_lake, step)


def test_a_sync_of_the_old_log_does_not_commit_over_a_rewind_in_any_format(lake: Lake) -> None:
    overtaken(lake, SyncStep.DEAD_LETTERS_COMMITTED)


def test_a_compaction_meanwhile_is_not_lost(plain_lake: Lake) -> None:
    bring(plain_lake, OLD)
    table = plain_lake.open("orders")
    assert table is not None
    rewind_table(plain_lake, "orders", CUT, at_first(RewindStep.WRITTEN, lambda: compact_once(table, 1 << 30)))
    bring(plain_lake, CUT)
    check(plain_lake, CUT)


def test_a_table_that_never_comes_to_rest_is_reported(plain_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(plain_lake, OLD)

    def conflict(*_args: object) -> None:
        raise CommitConflictError("moved")

    monkeypatch.setattr("crabka.spark.lake.maintenance.rewinding._rewind", conflict)
    with pytest.raises(LakeError, match="20 times while it was rewound"):
        rewind_table(plain_lake, "orders", CUT)


def test_rows_before_the_log_start_are_kept(plain_lake: Lake) -> None:
    bring(plain_lake, OLD)
    cut = topic_of(["new"] * 40, ["old"] * 12)
    cut.first = {0: 6}
    (rewound,) = rewind_table(plain_lake, "orders", cut)
    assert (rewound.rewound_to, rewound.log_start) == (6, 6)
    bring(plain_lake, cut)
    rows = table_rows(Path(plain_lake.root), "orders", plain_lake.table_format)
    assert [row["what"] for row in rows if row["kafka_partition"] == 0 and row["kafka_offset"] < 8] == ["old"] * 5 + [
        "new"
    ] * 2


def test_a_table_without_witnesses_gains_them_and_rewinds_to_the_start(plain_lake: Lake) -> None:
    bring(plain_lake, OLD)
    forget(plain_lake)
    bring(plain_lake, OLD)  # nothing new but the witnesses
    with pytest.raises(LogCutError):
        bring(plain_lake, CUT)
    forget(plain_lake)
    short = topic_of(["new"] * 20, ["old"] * 12)
    with pytest.raises(LogCutError, match="not known to agree anywhere"):
        bring(plain_lake, short)
    (rewound,) = rewind_table(plain_lake, "orders", short)
    assert rewound.rewound_to == 0
    bring(plain_lake, short)
    check(plain_lake, short)


def forget(lake: Lake) -> None:
    """Make the table one of a version that knew no witnesses."""
    table = lake.open("orders")
    assert table is not None
    offsets = table.committed_offsets()
    table.commit([], offsets, offsets, {})


def test_losses_that_are_accepted_are_passed_over(plain_lake: Lake) -> None:
    bring(plain_lake, OLD)
    cut = topic_of(["old"] * 17 + ["new"] * 25, ["old"] * 14)
    cut.passes_over = True
    bring(plain_lake, cut)
    rows = table_rows(Path(plain_lake.root), "orders", plain_lake.table_format)
    first = [row["what"] for row in rows if row["kafka_partition"] == 0]
    assert first == ["old"] * 24 + ["new"] * 10
    # From now on the table follows the new history.
    cut.passes_over = False
    bring(plain_lake, cut)


def test_what_is_no_table_of_the_topic_is_not_rewound(plain_lake: Lake) -> None:
    with pytest.raises(LakeError, match="There is no"):
        rewind_table(plain_lake, "orders", OLD)
    bring(plain_lake, OLD)
    with pytest.raises(LakeError, match="dead letters"):
        rewind_table(plain_lake, "orders_dlq", OLD)
    anew = topic_of(["old"] * 30, ["old"] * 12)
    anew.topic_id = "another"
    with pytest.raises(LakeError, match="created anew"):
        rewind_table(plain_lake, "orders", anew)
