from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.parquet_reading import read_batches
from crabka.spark.lake.formats.table import TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.compaction import compact_once, compact_table
from crabka.spark.lake.syncing.commits import CommitOutcome
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.tasks import TaskResult, WriteJob
from crabka.spark.lake.syncing.topic_sync import RoundResult, SyncStep, TopicSync
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.lake.values.schemas import dead_letter_schema, table_schema
from crabka.spark.plan.history.divergence import ReadPosition
from crabka.spark.plan.ranges import ReadPlan, Split
from tests.support.spark.lake_reader import table_files, table_places, table_rows
from tests.support.spark.lake_tables import ALL_FORMATS, TOPIC_ID, lake_of
from tests.support.spark.lake_topic import InlineRunner, ListTopic

pytestmark = pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections")

INFERRING = SyncSettings(decoder=JsonValues((), infers=True), round_bytes=1, min_tasks=2)
RAW = SyncSettings(round_bytes=1, min_tasks=2)
IN_ONE_ROUND = SyncSettings(decoder=JsonValues((), infers=True))


class _DiedError(Exception):
    pass


@pytest.fixture(params=ALL_FORMATS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_of(tmp_path, request.param)


def json_topic(*, partitions: int = 2, count: int = 12) -> ListTopic:
    """Every fifth value is no JSON, every seventh is null, and a field appears later."""

    def value(offset: int) -> bytes | None:
        if offset % 5 == 3:
            return b"{broken"
        if offset % 7 == 6:
            return None
        fields: dict[str, object] = {"id": offset, "name": f"n{offset}"}
        if offset >= 8:
            fields["late"] = {"deep": offset}
        return json.dumps(fields).encode()

    return ListTopic([[value(offset) for offset in range(count)] for _ in range(partitions)])


def is_bad(topic: ListTopic, partition: int, offset: int) -> bool:
    return bool(topic.values[partition][offset] == b"{broken")


def syncer(
    lake: Lake,
    topic: ListTopic,
    settings: SyncSettings,
    on_step: Callable[[SyncStep], None] = lambda _step: None,
) -> TopicSync:
    return TopicSync(lake, topic, InlineRunner(), settings, topic="orders", on_step=on_step)


def to_the_end(sync: TopicSync) -> list[RoundResult]:
    results = []
    while (result := sync.run_round()) is not None:
        results.append(result)
    return results


def check(lake: Lake, topic: ListTopic, *, bad_go_elsewhere: bool = True) -> None:
    """The table is the topic, and the dead letters are what it lacks, each exactly once."""
    every = [(partition, offset) for partition, values in enumerate(topic.values) for offset in range(len(values))]
    bad = [place for place in every if bad_go_elsewhere and is_bad(topic, *place)]
    root = Path(lake.root)
    assert table_places(root, "orders", lake.table_format) == [place for place in every if place not in bad]
    if bad:
        assert table_places(root, "orders_dlq", lake.table_format) == bad
    table = lake.open("orders")
    assert table is not None
    assert table.committed_offsets() == {partition: len(values) for partition, values in enumerate(topic.values)}


def test_a_topic_becomes_a_table_in_rounds(lake: Lake) -> None:
    topic = ListTopic([[b"v%d" % number for number in range(12)], []])
    results = to_the_end(syncer(lake, topic, RAW))
    assert [result.rows for result in results] == [5, 5, 2]
    assert [result.is_last for result in results] == [False, False, True]
    check(lake, topic)
    rows = table_rows(Path(lake.root), "orders", lake.table_format)
    assert rows[7]["value"] == b"v7"
    assert rows[7]["kafka_key"] == b"key-7"
    assert rows[7]["kafka_topic_id"] == topic.topic_id


class _CountingTopic(ListTopic):
    plans = 0

    def plan(self, topic: str, positions: Mapping[int, ReadPosition]) -> ReadPlan:
        self.plans += 1
        return super().plan(topic, positions)


def test_one_plan_serves_for_many_rounds(lake: Lake) -> None:
    topic = _CountingTopic([[b"v"] * 22, [b"v"] * 7])
    sync = syncer(lake, topic, RAW)
    assert [result.is_planned_anew for result in to_the_end(sync)] == [True, False, False, False, False]
    assert topic.plans == 2
    check(lake, topic)


def test_a_plan_is_dropped_when_another_writer_commits(lake: Lake) -> None:
    topic = _CountingTopic([[b"v"] * 22])
    sync = syncer(lake, topic, RAW)
    sync.run_round()
    syncer(lake, topic, RAW).run_round()
    result = sync.run_round()
    assert result is not None
    assert (result.rows, result.is_planned_anew) == (5, True)
    to_the_end(sync)
    check(lake, topic)


def test_a_plan_is_dropped_after_a_round_that_failed_or_was_lost(lake: Lake) -> None:
    topic = _CountingTopic([[b"v"] * 22])
    act: list[Callable[[], object]] = []

    def once(step: SyncStep) -> None:
        if step is SyncStep.WRITTEN and act:
            act.pop()()

    def die() -> None:
        raise _DiedError

    sync = syncer(lake, topic, RAW, once)
    sync.run_round()
    act.append(die)
    with pytest.raises(_DiedError):
        sync.run_round()
    act.append(lambda: syncer(lake, topic, RAW).run_round())
    outcomes = [(result.outcome, result.is_planned_anew) for result in to_the_end(sync)]
    assert outcomes[:2] == [(CommitOutcome.SUPERSEDED, True), (CommitOutcome.COMMITTED, True)]
    check(lake, topic)


def test_a_table_of_another_topic_differs_from_a_topic_that_was_created_anew(lake: Lake) -> None:
    to_the_end(syncer(lake, ListTopic([[b"a"]]), RAW))
    other = ListTopic([[b"b"]], topic_id="AnotherTopicAltogether", name="other")
    with pytest.raises(LakeError, match="follows the topic orders, not other"):
        TopicSync(lake, other, InlineRunner(), RAW, topic="other", table_name="orders").run_round()


def test_only_what_is_new_is_read_the_next_time(lake: Lake) -> None:
    topic = ListTopic([[b"a"] * 6])
    to_the_end(syncer(lake, topic, RAW))
    topic.values[0] += [b"b"] * 3
    topic.values.append([b"c"])
    assert [result.rows for result in to_the_end(syncer(lake, topic, SyncSettings()))] == [4]
    check(lake, topic)


def test_values_in_json_become_columns_and_the_rest_dead_letters(lake: Lake) -> None:
    topic = json_topic()
    to_the_end(syncer(lake, topic, INFERRING))
    check(lake, topic)
    rows = {
        (row["kafka_partition"], row["kafka_offset"]): row
        for row in table_rows(Path(lake.root), "orders", lake.table_format)
    }
    assert rows[0, 1]["name"] == "n1"
    assert rows[1, 9]["late"] == {"deep": 9}
    assert rows[1, 6]["id"] is None
    dead = table_rows(Path(lake.root), "orders_dlq", lake.table_format)
    assert {row["value"] for row in dead} == {b"{broken"}
    assert all("JSON" in row["reason"] for row in dead)


def test_a_table_is_partitioned_by_date_with_one_day_per_file(lake: Lake) -> None:
    topic = ListTopic([[b"v"] * 60])
    to_the_end(syncer(lake, topic, SyncSettings(partition_by="date")))
    check(lake, topic)
    table = lake.open("orders")
    assert table is not None
    assert {file.partition_value for file in table.files()} == {"2026-01-01", "2026-01-02", "2026-01-03"}


def test_a_table_is_partitioned_as_its_topic(lake: Lake) -> None:
    settings = SyncSettings(partition_by="kafka_partition", round_bytes=1)
    to_the_end(syncer(lake, ListTopic([[b"v"] * 12, [b"v"] * 5]), settings))
    table = lake.open("orders")
    assert table is not None
    before = table.files()
    compact_once(table, 1 << 20)
    table.refresh()
    for files in (before, table.files()):
        found: dict[str | None, list[int]] = {}
        for file in files:
            numbers = [
                number
                for batch in read_batches(lake.store("orders"), file.path, ["kafka_offset"])
                for number in batch.column(0).to_pylist()
            ]
            found.setdefault(file.partition_value, []).extend(numbers)
            assert f"part-0000{file.partition_value}-" in file.path
        assert {value: sorted(numbers) for value, numbers in found.items()} == {"0": [*range(12)], "1": [*range(5)]}
    assert len(table.files()) == 2 < len(before)


def test_timestamps_that_no_calendar_has_do_not_stop_the_sync(lake: Lake) -> None:
    strange = {1: -1000, 2: 1_800_000_000_000_000_000, 3: -900_000_000_000_000_000, 4: (1 << 63) - 1, 5: -(1 << 63)}
    topic = ListTopic([[b"v"] * 8], timestamps_us=strange)
    to_the_end(syncer(lake, topic, SyncSettings(partition_by="date")))
    check(lake, topic)
    table = lake.open("orders")
    assert table is not None
    assert {file.partition_value for file in table.files()} == {"1969-12-31", "2026-01-01", None}
    compact_once(table, 1 << 20)
    check(lake, topic)


def test_a_table_is_partitioned_by_a_column_of_the_values(lake: Lake) -> None:
    kinds = ["a b", "ü/?", None, "plain"]
    topic = ListTopic([[json.dumps({"kind": kinds[number % 4]}).encode() for number in range(20)]])
    settings = SyncSettings(decoder=JsonValues((pa.field("kind", pa.string()),)), partition_by="kind")
    to_the_end(syncer(lake, topic, settings))
    check(lake, topic)
    table = lake.open("orders")
    assert table is not None
    assert {file.partition_value for file in table.files()} == set(kinds)
    compact_once(table, 1 << 20)
    check(lake, topic)
    assert len(table_files(Path(lake.root), "orders", lake.table_format)) == 4


@pytest.mark.parametrize(
    ("kind", "values", "partitions"),
    [
        (pa.date32(), [b'{"c": "2026-02-03"}', b'{"c": 5000000}', b"{}"], {"2026-02-03", None}),
        (
            pa.string(),
            [b'{"c": "%s"}' % (b"q" * 1024), b'{"c": "%s"}' % (b"q" * 1025), b'{"c": "x"}'],
            {"q" * 1024, "x"},
        ),
    ],
)
def test_values_that_no_partition_can_have_are_dead_letters(
    lake: Lake, kind: pa.DataType, values: list[bytes], partitions: set[str | None]
) -> None:
    settings = SyncSettings(decoder=JsonValues((pa.field("c", kind),)), partition_by="c")
    to_the_end(syncer(lake, ListTopic([values]), settings))
    root = Path(lake.root)
    assert table_places(root, "orders", lake.table_format) == [(0, 0), (0, 2)]
    assert table_places(root, "orders_dlq", lake.table_format) == [(0, 1)]
    table = lake.open("orders")
    assert table is not None
    assert {file.partition_value for file in table.files()} == partitions


def test_a_topic_that_was_created_anew_stops_the_sync(lake: Lake) -> None:
    to_the_end(syncer(lake, ListTopic([[b"a"] * 6]), RAW))
    for count in (9, 2):
        with pytest.raises(LakeError, match="created anew"):
            syncer(lake, ListTopic([[b"b"] * count], topic_id="AnotherTopicAltogether"), RAW).run_round()


def test_leftover_dead_letters_do_not_swallow_rows_of_a_topic_that_was_created_anew(lake: Lake) -> None:
    to_the_end(syncer(lake, ListTopic([[b"{broken"] * 6]), INFERRING))
    anew = ListTopic([[b"{broken"] * 6], topic_id="AnotherTopicAltogether")
    sync = TopicSync(lake, anew, InlineRunner(), INFERRING, topic="orders", table_name="again")
    to_the_end(sync)
    assert len(table_places(Path(lake.root), "again_dlq", lake.table_format)) == 6
    third = ListTopic([[b"{broken"] * 6], topic_id="TheThirdTopicOfTheName")
    lake.create("late", TableSpec("orders", third.topic_id, table_schema((), with_date=False)))
    lake.create("late_dlq", TableSpec("orders", TOPIC_ID, dead_letter_schema()))
    with pytest.raises(LakeError, match="late_dlq has dead letters"):
        TopicSync(lake, third, InlineRunner(), INFERRING, topic="orders", table_name="late").run_round()


def test_a_topic_is_not_synced_into_the_dead_letters_of_another(lake: Lake) -> None:
    to_the_end(syncer(lake, ListTopic([[b"{broken"] * 6]), INFERRING))
    other = ListTopic([[b"{}"] * 9], topic_id="AnotherTopicAltogether", name="orders_dlq")
    for topic in (other, ListTopic([[b"{}"] * 9])):
        with pytest.raises(LakeError, match="orders_dlq has the dead letters of the topic orders: choose another"):
            TopicSync(lake, topic, InlineRunner(), INFERRING, topic=topic.name, table_name="orders_dlq").run_round()


def test_dead_letters_are_not_put_into_the_table_of_another_topic(lake: Lake) -> None:
    other = ListTopic([[b"v"] * 3], topic_id="AnotherTopicAltogether", name="orders_dlq")
    to_the_end(TopicSync(lake, other, InlineRunner(), RAW, topic="orders_dlq"))
    with pytest.raises(LakeError, match="orders_dlq is of the topic orders_dlq, but dead letters"):
        syncer(lake, ListTopic([[b"{broken"] * 9]), INFERRING).run_round()
    assert table_places(Path(lake.root), "orders_dlq", lake.table_format) == [(0, 0), (0, 1), (0, 2)]
    # Rows of which none can be a dead letter need no such table.
    to_the_end(syncer(lake, ListTopic([[b"v"] * 9]), RAW))
    assert len(table_places(Path(lake.root), "orders", lake.table_format)) == 9


def test_a_table_that_is_partitioned_otherwise_is_refused(lake: Lake) -> None:
    to_the_end(syncer(lake, ListTopic([[b"a"]]), RAW))
    with pytest.raises(ConfigError, match="partitioned by nothing"):
        syncer(lake, ListTopic([[b"a"] * 2]), SyncSettings(partition_by="date")).run_round()


def test_a_column_to_partition_by_must_exist(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="no such column"):
        syncer(lake, ListTopic([[b"a"]]), SyncSettings(partition_by="nowhere")).run_round()


def test_a_file_for_every_row_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="cannot be partitioned by kafka_offset: every row would have a file"):
        syncer(lake, ListTopic([[b"a"]]), SyncSettings(partition_by="kafka_offset")).run_round()


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    ("values", "dead"),
    [
        ([b'{"a": 1}', b'{"kafka_offset": 5}', b'{"Kafka_Key": "x", "b": 1}'], [1, 2]),
        ([b'{"a": 1}', b'{"kafka_date": "yesterday"}', b'{"a": 3}'], [1]),
        ([b'{"a": 1}', b'{"A": 5}'], [1]),
        ([b'{"s": {"a": 1, "A": 2}}', b'{"s": {"a": 1}}'], [0]),
        ([b'{"s": {"a": 1}}', b'{"s": {"A": 2, "b": 3}}', b'{"s": {"b": 4}}'], [1]),
        ([b'{"a": {"b": 1}}', b'{"a.b": 5}', b'{"a.c": 5}'], [1]),
        ([b'{"a": [{"b": 1}]}', b'{"a.element.b": 5}', b'{"a.list.element.b": 5}', b'{"a.list": 5}'], [1]),
        ([b'{"a": 1}', b'{"a\\u0000b": 1}'], [1]),
        ([b'{"s": {".x": 1, "[0": 2}}', b'{"s": {"y": 1}, ".x": 1}'], []),
        ([b'{"a": 1}', nested(500)], [1]),
        ([nested(32), b'{"b": %s1%s}' % (b"[" * 31, b"]" * 31), b'{"c": [' * 16 + b"1" + b"]}" * 16], []),
    ],
)
@pytest.mark.parametrize("round_bytes", [1, 1 << 20])
def test_no_field_stops_a_sync_or_gets_lost(lake: Lake, values: list[bytes], dead: list[int], round_bytes: int) -> None:
    topic = ListTopic([[], list(values)])
    settings = SyncSettings(decoder=JsonValues((), infers=True), round_bytes=round_bytes)
    to_the_end(syncer(lake, topic, settings))
    topic.values[0] += values
    to_the_end(syncer(lake, topic, settings))
    every = [(partition, offset) for partition in (0, 1) for offset in range(len(values))]
    root = Path(lake.root)
    assert table_places(root, "orders", lake.table_format) == [place for place in every if place[1] not in dead]
    if dead:
        assert table_places(root, "orders_dlq", lake.table_format) == [place for place in every if place[1] in dead]


def test_fields_of_tasks_that_exclude_each_other_are_settled(lake: Lake) -> None:
    small, large = b'{"s": {"a": 1}, "x": 1}', b'{"s": {"A": 1, "b": 2}, "X": 1, "y": 1}'
    topic = ListTopic([[small] * 5, [large] * 5, [b'{"s": {"b": 3}, "y": 2}']])
    to_the_end(syncer(lake, topic, IN_ONE_ROUND))
    root = Path(lake.root)
    assert table_places(root, "orders", lake.table_format) == [*((0, offset) for offset in range(5)), (2, 0)]
    assert table_places(root, "orders_dlq", lake.table_format) == [(1, offset) for offset in range(5)]
    assert table_rows(root, "orders", lake.table_format)[5]["s"] == {"a": None, "b": 3}


def test_columns_that_another_sync_adds_first_stay(lake: Lake) -> None:
    topic = ListTopic([[b'{"a": 1}']])
    to_the_end(syncer(lake, topic, INFERRING))
    topic.values[0] += [b'{"x": 1, "y": 2}', b'{"x": "text"}']

    class _Overtaken(InlineRunner):
        def run(self, job: WriteJob, splits: Sequence[Split]) -> list[TaskResult]:
            answers = super().run(job, splits)
            if self.runs == 1:
                table = lake.open("orders")
                assert table is not None
                table.evolve(pa.schema([*table.spec.schema, pa.field("x", pa.string())]))
            return answers

    sync = TopicSync(lake, topic, _Overtaken(), INFERRING, topic="orders")
    assert [(result.rows, result.dead_rows) for result in to_the_end(sync)] == [(1, 1)]
    assert table_rows(Path(lake.root), "orders", lake.table_format)[1]["x"] == "text"


@pytest.mark.parametrize("step", list(SyncStep))
def test_a_sync_that_dies_at_any_step_is_taken_over(lake: Lake, step: SyncStep) -> None:
    topic = json_topic()
    seen = 0

    def die(reached: SyncStep) -> None:
        nonlocal seen
        seen += reached is step
        if seen == 2:
            raise _DiedError

    with pytest.raises(_DiedError):
        to_the_end(syncer(lake, topic, INFERRING, die))
    to_the_end(syncer(lake, topic, INFERRING))
    check(lake, topic)


def test_dead_letters_of_a_sync_that_died_are_not_doubled_by_a_larger_round(lake: Lake) -> None:
    topic = json_topic(partitions=1, count=30)

    def die(reached: SyncStep) -> None:
        if reached is SyncStep.DEAD_LETTERS_COMMITTED:
            raise _DiedError

    with pytest.raises(_DiedError):
        syncer(lake, topic, INFERRING, die).run_round()
    to_the_end(syncer(lake, topic, IN_ONE_ROUND))
    check(lake, topic)


def test_a_row_that_is_bad_only_for_the_next_run_is_not_lost(lake: Lake) -> None:
    topic = ListTopic([[b'{"a": 1}', b"{broken", b'{"a": "text"}']])

    def die(reached: SyncStep) -> None:
        if reached is SyncStep.DEAD_LETTERS_COMMITTED:
            raise _DiedError

    as_text = SyncSettings(decoder=JsonValues((pa.field("b", pa.string()),)))
    with pytest.raises(_DiedError):
        syncer(lake, topic, as_text, die).run_round()
    to_the_end(syncer(lake, topic, SyncSettings(decoder=JsonValues((pa.field("a", pa.int64()),)))))
    assert table_places(Path(lake.root), "orders", lake.table_format) == [(0, 0)]
    assert table_places(Path(lake.root), "orders_dlq", lake.table_format) == [(0, 1), (0, 2)]


def test_another_sync_that_overtakes_at_any_step_doubles_nothing(lake: Lake) -> None:
    for step in SyncStep:
        topic = json_topic()
        name = f"orders-{step.value.replace(' ', '-')}"
        overtaken = False

        def overtake(reached: SyncStep, step: SyncStep = step, topic: ListTopic = topic, name: str = name) -> None:
            nonlocal overtaken
            if reached is step and not overtaken:
                overtaken = True
                to_the_end(TopicSync(lake, topic, InlineRunner(), INFERRING, topic="orders", table_name=name))

        sync = TopicSync(lake, topic, InlineRunner(), INFERRING, topic="orders", table_name=name, on_step=overtake)
        results = to_the_end(sync)
        assert overtaken
        if step in (SyncStep.PLANNED, SyncStep.WRITTEN, SyncStep.DEAD_LETTERS_COMMITTED):
            assert results[0].outcome is CommitOutcome.SUPERSEDED
        root = Path(lake.root)
        good = [(partition, offset) for partition in (0, 1) for offset in range(12) if offset % 5 != 3]
        assert table_places(root, name, lake.table_format) == good
        assert table_places(root, f"{name}_dlq", lake.table_format) == [(0, 3), (0, 8), (1, 3), (1, 8)]


def test_two_syncs_and_a_compaction_at_once_lose_and_double_nothing(lake: Lake) -> None:
    topic = json_topic(partitions=3, count=20)
    errors: list[BaseException] = []
    done = threading.Event()

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    def compacting() -> None:
        while not done.is_set():
            table = lake.open("orders")
            if table is not None:
                try:
                    compact_table(table, 1 << 20)
                except CommitConflictError:
                    continue
            done.wait(0.01)

    def syncing() -> None:
        to_the_end(syncer(lake, topic, INFERRING))

    syncs = [threading.Thread(target=guarded, args=[syncing]) for _ in range(2)]
    compaction = threading.Thread(target=guarded, args=[compacting])
    for thread in (*syncs, compaction):
        thread.start()
    for thread in syncs:
        thread.join()
    done.set()
    compaction.join()
    if errors:
        raise errors[0]
    check(lake, topic)
