from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from crabka.cli.lake.progress import LakeProgress, follow_until_interrupted
from crabka.spark.lake.syncing.commits import CommitOutcome
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.sync_job import LakeSync, SyncRequest
from crabka.spark.lake.syncing.topic_sync import RoundResult, SyncStep
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import lake_of
from tests.support.spark.lake_topic import InlineRunner, ListTopic


def test_nothing_is_printed_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with LakeProgress() as progress:
        progress.did_tasks(1, 2)
        progress.began("orders")
        progress.did_tasks(1, 2)
        progress.did_round("orders", RoundResult(CommitOutcome.COMMITTED, rows=5, read_bytes=10, left_bytes=30))
        progress.did_round("orders", RoundResult(CommitOutcome.SUPERSEDED))
        [bar] = progress._progress.tasks
        assert (bar.description, bar.completed, bar.fields["rows"]) == ("orders", 10, 5)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with LakeProgress() as progress:
        progress.failed("orders", OSError(f"the [store]\nsays {'no ' * 100}"))
        progress.failed("other", ValueError())
    assert capsys.readouterr().err == f"orders: the [store] says {'no ' * 99}no\nother: ValueError\n"


def test_a_bar_knows_how_much_there_is() -> None:
    with LakeProgress() as progress:
        progress.began("orders")
        progress.did_round("orders", RoundResult(CommitOutcome.COMMITTED, rows=5, read_bytes=10, left_bytes=30))
        assert progress._progress.tasks[0].total == 40
        progress.began("orders")
        progress.did_round("orders", RoundResult(CommitOutcome.COMMITTED, rows=1, read_bytes=30))
        assert (progress._progress.tasks[0].completed, progress._progress.tasks[0].total) == (40, 40)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_sync_under_way_end(tmp_path: Path, number: signal.Signals) -> None:
    lake = lake_of(tmp_path, "parquet")
    before = signal.getsignal(number)

    def interrupt(step: SyncStep) -> None:
        if step is SyncStep.WRITTEN:
            os.kill(os.getpid(), number)

    class Topics(ListTopic):
        def topics(self, pattern: str) -> list[str]:
            return []

    request = SyncRequest(topics=("orders",), settings=SyncSettings())
    job = LakeSync(lake, Topics([[b"v"] * 3]), InlineRunner(), request, on_step=interrupt)
    follow_until_interrupted(job, interval_seconds=3600)
    assert table_places(Path(lake.root), "orders", "parquet") == [(0, 0), (0, 1), (0, 2)]
    assert signal.getsignal(number) is before
