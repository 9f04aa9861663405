from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from crabka.errors import ConfigError, InvariantError
from crabka.spark.lake.errors import LakeError, TopicsFailedError
from crabka.spark.lake.syncing.commits import CommitOutcome
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.sync_job import LakeSync, SyncListener, SyncRequest, TopicSummary
from crabka.spark.lake.syncing.topic_sync import RoundResult, SyncStep, TopicSync
from crabka.spark.plan.history.divergence import ReadPosition
from crabka.spark.plan.ranges import ReadPlan
from tests.support.spark.java_errors import JavaSideError
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import lake_of
from tests.support.spark.lake_topic import InlineRunner, ListTopic

SMALL = SyncSettings(round_bytes=1)


class _Topics(ListTopic):
    def topics(self, pattern: str) -> list[str]:
        return [name for name in ("orders", "orders.eu", "other") if name.startswith(pattern)]


class _Notes(SyncListener):
    def __init__(self) -> None:
        self.reported: list[object] = []

    def began(self, topic: str) -> None:
        self.reported.append(topic)

    def did_round(self, topic: str, result: RoundResult) -> None:
        self.reported.append(result.rows)

    def failed(self, topic: str, error: Exception) -> None:
        self.reported.append((topic, str(error)))


def test_all_topics_of_a_pattern_have_tables(tmp_path: Path) -> None:
    lake, notes = lake_of(tmp_path, "parquet"), _Notes()
    job = LakeSync(
        lake,
        _Topics([[b"v"] * 7]),
        InlineRunner(),
        SyncRequest(pattern="orders", settings=SMALL),
        listener=notes,
    )
    job.run_once()
    assert [(each.topic, each.table, each.rows, each.rounds) for each in job.summaries] == [
        ("orders", "orders", 7, 2),
        ("orders.eu", "orders.eu", 7, 2),
    ]
    assert notes.reported == ["orders", 5, 2, "orders.eu", 5, 2]
    assert table_places(Path(lake.root), "orders.eu", "parquet") == [(0, offset) for offset in range(7)]


def test_following_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    lake, topic = lake_of(tmp_path, "parquet"), _Topics([[b"v"] * 3])
    request = SyncRequest(topics=("orders",), table_name="sales", settings=SMALL)
    job = LakeSync(lake, topic, InlineRunner(), request)
    turns = 0

    def wait() -> bool:
        nonlocal turns
        turns += 1
        topic.values[0].append(b"new")
        return turns < 3

    job.follow(wait)
    assert turns == 3
    assert table_places(Path(lake.root), "sales", "parquet") == [(0, offset) for offset in range(5)]
    assert [(each.table, each.rows, each.rounds) for each in job.summaries] == [("sales", 5, 3)]


class _Failing(_Topics):
    """Fails for some topics, with what `failures` has for them."""

    failures: dict[str, Exception] = {}  # noqa: RUF012 - of the test that sets it

    def plan(self, topic: str, positions: Mapping[int, ReadPosition]) -> ReadPlan:
        if topic in self.failures:
            raise self.failures[topic]
        return super().plan(topic, positions)

    def topics(self, pattern: str) -> list[str]:
        if pattern in self.failures:
            raise self.failures[pattern]
        return super().topics(pattern)


def failing(tmp_path: Path, failures: dict[str, Exception], **request: Any) -> tuple[LakeSync, _Failing, _Notes]:
    source, notes = _Failing([[b"v"] * 3]), _Notes()
    source.failures = failures
    given: dict[str, Any] = {"pattern": "o", "settings": SMALL} | request
    asked = SyncRequest(**given)
    return LakeSync(lake_of(tmp_path, "parquet"), source, InlineRunner(), asked, listener=notes), source, notes


def test_a_topic_that_fails_keeps_no_other_from_its_turn(tmp_path: Path) -> None:
    job, _, _ = failing(tmp_path, {"orders": LakeError("created anew"), "other": OSError("gone")})
    with pytest.raises(TopicsFailedError, match=r"2 of the topics failed: orders: created anew; other: gone$"):
        job.run_once()
    assert [(each.topic, each.rows) for each in job.summaries] == [("orders", 0), ("orders.eu", 3), ("other", 0)]


def test_the_error_of_an_only_topic_is_raised_as_it_is(tmp_path: Path) -> None:
    error = OSError("gone")
    job, _, notes = failing(tmp_path, {"orders": error}, pattern=None, topics=("orders",))
    with pytest.raises(OSError, match="gone") as caught:
        job.run_once()
    assert caught.value is error
    assert notes.reported == ["orders"]


def test_following_reports_an_error_once_and_tries_again(tmp_path: Path) -> None:
    job, source, notes = failing(tmp_path, {"orders.eu": LakeError("away")})
    later: list[dict[str, Exception]] = [
        {"orders.eu": LakeError("away")},
        {"o": LakeError("no broker there")},
        {},
        {"other": OSError("full")},
    ]
    turns = iter(later)

    def wait() -> bool:
        found = next(turns, None)
        source.failures = dict(found or {})
        source.values[0].append(b"new")
        return found is not None

    job.follow(wait)
    found = [each for each in notes.reported if isinstance(each, tuple)]
    assert found == [("orders.eu", "away"), ("o", "no broker there"), ("other", "full")]
    assert [(each.topic, each.rows) for each in job.summaries] == [("orders", 7), ("orders.eu", 7), ("other", 6)]


def test_following_ends_at_once_if_what_was_asked_for_makes_no_sense(tmp_path: Path) -> None:
    wrong = ConfigError("no such column")
    only: dict[str, Any] = {"pattern": None, "topics": ("orders",)}
    for failing_places, asked in ((["orders"], only), (["o"], {}), (["orders", "orders.eu", "other"], {})):
        job, _, _ = failing(tmp_path, dict.fromkeys(failing_places, wrong), **asked)
        with pytest.raises(ConfigError, match="no such column"):
            job.follow(lambda: True)
    job, _, notes = failing(tmp_path, {"orders": wrong})
    job.follow(lambda: False)
    assert ("orders", "no such column") in notes.reported


@pytest.mark.parametrize("error", [ConnectionRefusedError("java"), Py4JNetworkError("java"), InvariantError("bug")])
def test_what_no_later_turn_does_better_ends_everything(tmp_path: Path, error: Exception) -> None:
    job, _, notes = failing(tmp_path, {"orders": error})
    with pytest.raises(type(error)):
        job.follow(lambda: True)
    with pytest.raises(type(error)):
        job.run_once()
    assert notes.reported == ["orders", "orders"]


def test_an_exception_of_java_ends_nothing_but_a_turn(tmp_path: Path) -> None:
    job, _, notes = failing(tmp_path, {"orders": JavaSideError("raised by a Java that lives")})
    job.follow(lambda: False)
    assert ("orders", "raised by a Java that lives") in notes.reported
    assert "orders.eu" in notes.reported


def test_what_comes_while_a_long_plan_is_carried_out_is_read_as_well(tmp_path: Path) -> None:
    topic = _Topics([[b"v"] * 12])
    written = 0

    def grow(step: SyncStep) -> None:
        nonlocal written
        written += step is SyncStep.WRITTEN
        if step is SyncStep.WRITTEN and written in (1, 4):
            topic.values[0].append(b"more")

    request = SyncRequest(topics=("orders",), settings=SMALL)
    job = LakeSync(lake_of(tmp_path, "parquet"), topic, InlineRunner(), request, on_step=grow)
    job.run_once()
    assert (job.summaries[0].rounds, job.summaries[0].rows, len(topic.values[0])) == (4, 13, 14)


def test_a_topic_that_never_rests_does_not_keep_others_waiting(tmp_path: Path) -> None:
    topic = _Topics([[b"v"]])

    def grow(step: SyncStep) -> None:
        if step is SyncStep.WRITTEN:
            topic.values[0].append(b"more")

    request = SyncRequest(topics=("orders",), settings=SyncSettings())
    job = LakeSync(lake_of(tmp_path, "parquet"), topic, InlineRunner(), request, on_step=grow)
    job.run_once()
    assert job.summaries[0].rounds == 1


def test_a_round_that_another_writer_won_is_followed_by_another(tmp_path: Path) -> None:
    lake, topic = lake_of(tmp_path, "parquet"), _Topics([[b"v"] * 4])
    overtaken = False

    def overtake(step: SyncStep) -> None:
        nonlocal overtaken
        if step is SyncStep.WRITTEN and not overtaken:
            overtaken = True
            TopicSync(lake, topic, InlineRunner(), SyncSettings(), topic="orders").run_round()
            topic.values[0].append(b"late")

    request = SyncRequest(topics=("orders",), settings=SyncSettings())
    job = LakeSync(lake, topic, InlineRunner(), request, on_step=overtake)
    job.run_once()
    assert (job.summaries[0].rows, job.summaries[0].lost_rounds) == (1, 1)
    assert table_places(Path(lake.root), "orders", "parquet") == [(0, offset) for offset in range(5)]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"topics": ("a",), "pattern": "b"},
        {"topics": ("a", "b"), "table_name": "c"},
        {"pattern": "a", "table_name": "c"},
    ],
)
def test_requests_that_make_no_sense_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        SyncRequest(**given, settings=SMALL)  # type: ignore[arg-type]


def test_a_summary_adds_rounds_up() -> None:
    summary = TopicSummary("t", "t").plus(RoundResult(CommitOutcome.COMMITTED, 3, 1, 2, 10))
    summary = summary.plus(RoundResult(CommitOutcome.SUPERSEDED)).plus(RoundResult(CommitOutcome.COMMITTED, 1, 1, 1, 1))
    assert summary == TopicSummary("t", "t", 4, 2, 3, 11, 2, 1)
