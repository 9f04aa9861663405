from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.commits import CommitOutcome
from crabka.spark.lake.settings import SyncSettings
from crabka.spark.lake.sync_job import LakeSync, SyncListener, SyncRequest, TopicSummary
from crabka.spark.lake.topic_sync import RoundResult, SyncStep, TopicSync
from tests.support.lake_reader import table_places
from tests.support.lake_tables import lake_of
from tests.support.lake_topic import InlineRunner, ListTopic

SMALL = SyncSettings(round_bytes=1)


class _Topics(ListTopic):
    def topics(self, pattern: str) -> list[str]:
        return [name for name in ("orders", "orders.eu", "other") if name.startswith(pattern)]


class _Notes(SyncListener):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def began(self, topic: str) -> None:
        self.heard.append(topic)

    def did_round(self, topic: str, result: RoundResult) -> None:
        self.heard.append(result.rows)


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
    assert notes.heard == ["orders", 5, 2, "orders.eu", 5, 2]
    assert table_places(Path(lake.root), "orders.eu", "parquet") == [(0, offset) for offset in range(7)]


def test_following_goes_on_until_it_is_told_to_stop(tmp_path: Path) -> None:
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


def test_a_topic_that_never_rests_does_not_keep_others_waiting(tmp_path: Path) -> None:
    topic = _Topics([[b"v"]])

    def grow(step: SyncStep) -> None:
        if step is SyncStep.WRITTEN:
            topic.values[0].append(b"more")

    request = SyncRequest(topics=("orders",), settings=SyncSettings())
    job = LakeSync(lake_of(tmp_path, "parquet"), topic, InlineRunner(), request, on_step=grow)
    job.run_once()
    assert job.summaries[0].rounds == 1


def test_a_round_that_somebody_else_won_is_followed_by_another(tmp_path: Path) -> None:
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
