"""The picture of statistics is a PNG, and without matplotlib the reason is reported."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from crabka.errors import ConfigError
from crabka.spark.jobs import stats_plot
from crabka.spark.jobs.stats import TopicDay
from crabka.spark.jobs.stats_plot import merged, plot_stats
from tests.support.plots import texts_of, unreadable_texts

DAYS = [
    TopicDay(topic, date(2026, 1, day), 100 * day, 1_000, 7, 1 << 20, {"none": 1}, 1_500.0, 2_000)
    for topic in ("a", "b")
    for day in (1, 2, 3)
]


MANY = [
    TopicDay(f"topic-with-a-long-name-{number}", date(2026, 1, day), 10 * number, 1_000, 7, 1 << 20, {}, 9e6, 9)
    for number in range(1, 13)
    for day in (1, 20)
]


@pytest.mark.parametrize("days", [DAYS, DAYS[:1], [DAYS[0], DAYS[3]], MANY, []])
def test_every_text_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: list[TopicDay]) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(stats_plot, "save_figure", lambda figure, _path: figures.append(figure))
    plot_stats(days, str(tmp_path / "stats.png"))
    assert unreadable_texts(figures[0]) == []


def test_one_day_is_bars_and_not_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(stats_plot, "save_figure", lambda figure, _path: figures.append(figure))
    plot_stats([DAYS[0], DAYS[3]], str(tmp_path / "stats.png"))
    (figure,) = figures
    assert [len(axes.patches) for axes in figure.axes] == [2, 2, 2, 2]
    assert any("2026-01-01." in text for text in texts_of(figure))


def test_days_are_the_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(stats_plot, "save_figure", lambda figure, _path: figures.append(figure))
    plot_stats(DAYS, str(tmp_path / "stats.png"))
    left, right = figures[0].axes[0].get_xlim()
    assert (-0.2 < left < 0, 2 < right < 2.2) == (True, True)
    assert [label.get_text() for label in figures[0].axes[0].get_xticklabels()] == ["01 Jan", "02 Jan", "03 Jan"]


def test_topics_beyond_some_are_one() -> None:
    found = merged(MANY)
    assert [day.topic for day in found[-2:]] == ["5 others"] * 2
    assert found[-1].records == sum(10 * number for number in range(1, 6))
    assert found[-1].lag_mean_ms == 9e6
    assert len({day.topic for day in found}) == 8
    assert merged(DAYS) == DAYS


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
