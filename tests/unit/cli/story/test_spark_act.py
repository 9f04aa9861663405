"""The part of the tour that needs Java, without Java; tests/spark has the rest."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

import pytest

from crabka.cli.story import spark_act as story_spark
from crabka.cli.story.spark_act import Sold, answer_lines


def test_without_java_the_tour_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    reported = story_spark.give_lake_tour(
        "orders",
        uuid.uuid4(),
        lambda _: contextlib.nullcontext(),
        tier=str(tmp_path),
        lake_dir=str(tmp_path / "lake"),
    )
    assert isinstance(reported, str)
    assert "Spark needs Java 17" in reported
    assert not (tmp_path / "lake").exists()


def test_the_answer_is_a_chart() -> None:
    lines = list(answer_lines([Sold("tea", 10, 30, 400.0), Sold("rice", 1, 1, 1.0)], width=4))
    assert lines == [("tea", "████          400       10 orders"), ("rice", "█               1        1 orders")]
