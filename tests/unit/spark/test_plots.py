"""Plots have a title, a unit and a baseline, and every text in them can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.plots import Bar, Scale, draw_bars, new_figure, save_figure, short_number, spread
from tests.support.plots import texts_of, unreadable_texts

BARS = [
    Bar("the same name", 4.2, "4.2x", "41k req/s (9.63k)", 2.5),
    Bar("the same name", 1.13, "1.1x", "0.15 s (0.17)", 1.0),
    Bar("a name that is much longer than the space on the left of the bars has columns", 126.0, "126x", "18.6 ms"),
    Bar("worse", 0.4, "0.40x", "2 s (1)", is_good=False),
]


def test_bars_of_one_name_do_not_cover_each_other() -> None:
    figure = draw_bars("A title", "What is drawn. " * 8, BARS, Scale("times as good", 1.0, "1x = the other"))
    texts = texts_of(figure)
    assert {"A title", "times as good", "1x = the other", "4.2x", "1.1x"} <= set(texts)
    assert texts.count("the same name") == 2
    assert unreadable_texts(figure) == []


@pytest.mark.parametrize("value", [0.0, 0.03, 7.2e6])
def test_bars_of_a_plain_scale_begin_at_nothing(value: float) -> None:
    figure = draw_bars("A title", "", [Bar("one", value, short_number(value), "8 orders")] * 3, Scale("revenue"))
    assert figure.axes[0].get_xlim()[0] == 0
    assert unreadable_texts(figure) == []


def test_labels_are_spread_and_keep_their_order() -> None:
    assert spread([0.1, 0.5, 0.9]) == [0.1, 0.5, 0.9]
    close = spread([0.5, 0.5, 0.1], least=0.2)
    assert close == pytest.approx([0.5, 0.7, 0.1])
    high = spread([1.0, 0.98, 1.0, 0.99])
    assert max(high) <= 1.05
    assert min(abs(one - other) for index, one in enumerate(high) for other in high[:index]) >= 0.119


@pytest.mark.parametrize(
    ("value", "text"), [(0.0911, "0.091"), (24.06, "24.1"), (9628, "9.63k"), (40_753, "40.8k"), (7.2e6, "7.2M")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short_number(value) == text


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        save_figure(new_figure("t", "", 2), str(tmp_path / "missing" / "plot.png"))
