"""The picture of statistics is a PNG, and without matplotlib the reason is reported."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.jobs.stats import TopicDay
from crabka.spark.jobs.stats_plot import plot_stats

DAYS = [
    TopicDay(topic, date(2026, 1, day), 100 * day, 1_000, 7, 1 << 20, {"none": 1}, 1_500.0, 2_000)
    for topic in ("a", "b")
    for day in (1, 2, 3)
]


@pytest.mark.parametrize("days", [DAYS, []])
def test_picture_is_written(tmp_path: Path, days: list[TopicDay]) -> None:
    path = tmp_path / "stats.png"
    plot_stats(days, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        plot_stats(DAYS, str(tmp_path / "missing" / "stats.png"))


def test_missing_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        plot_stats(DAYS, str(tmp_path / "stats.png"))
