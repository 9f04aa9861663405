"""Plots with one look: a title, the unit and the baseline in words, values written beside what they belong to.

A plot is read at half its size, so no text is smaller than SMALL points and labels are wrapped instead of shrunk. Bars
stand at their row, not at their name: two rows may have the same one. Needs matplotlib, which the `spark` extra has.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH: Final = 10.0
DPI: Final = 110
LARGE, MEDIUM, SMALL = 18, 14, 12.5
# Colours that differ for people with any colour vision.
GOOD, BAD, DARK, LIGHT = "#0072b2", "#d55e00", "#333333", "#bbbbbb"
SERIES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c")
_LABEL_COLUMNS: Final = 34
_HEAD_INCHES: Final = 1.4
_FOOT_INCHES: Final = 0.75
_INCHES_PER_LINE: Final = 0.26
_SUBTITLE_COLUMNS: Final = 100


class Bar(NamedTuple):
    """A row of a bar chart: its label, its length, what is written at its end, and a mark that it should reach."""

    label: str
    value: float
    text: str
    # Written in a column on the right.
    aside: str = ""
    mark: float | None = None
    is_good: bool = True


class Scale(NamedTuple):
    """The axis of a bar chart: what it counts, and where bars begin; a baseline of a log scale has a name."""

    name: str
    start: float = 0.0
    baseline: str = ""


def new_figure(title: str, subtitle: str, height: float, *, width: float = WIDTH) -> Figure:
    """Return a figure with its title. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("a plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    top = 1 - 0.18 / height
    figure.text(0.02, top, title, fontsize=LARGE, fontweight="bold", color=DARK, va="top")
    lines = "\n".join(textwrap.wrap(subtitle, round(_SUBTITLE_COLUMNS * width / WIDTH)))
    figure.text(0.02, top - 0.38 / height, lines, fontsize=SMALL, color=DARK, va="top")
    return figure


def draw_bars(title: str, subtitle: str, bars: Sequence[Bar], scale: Scale) -> Figure:
    """Draw one bar below the other. A scale with a baseline is logarithmic and begins there."""
    labels = [textwrap.fill(bar.label, _LABEL_COLUMNS) for bar in bars]
    heights = [max(label.count("\n") + 1, 2) * _INCHES_PER_LINE for label in labels]
    inner = sum(heights) + 0.2
    height = _HEAD_INCHES + inner + _FOOT_INCHES
    figure = new_figure(title, subtitle, height)
    # Labels on the left, what is written at the ends of bars on the right.
    axes = figure.add_axes((0.35, _FOOT_INCHES / height, 0.41, inner / height))
    places = [sum(heights[:index]) + heights[index] / 2 + 0.1 for index in range(len(bars))]
    axes.set_ylim(inner, 0)
    _set_scale(axes, bars, scale)
    for bar, place, label, room in zip(bars, places, labels, heights, strict=True):
        colour = GOOD if bar.is_good else BAD
        axes.barh(place, bar.value - scale.start, left=scale.start, height=0.55 * room, color=colour)
        if bar.mark is not None:
            axes.plot([bar.mark, bar.mark], [place - 0.38 * room, place + 0.38 * room], color=DARK, linewidth=2.5)
        axes.annotate(label, (0, place), (-8, 0), **_BESIDE, xycoords=axes.get_yaxis_transform(), ha="right")
        end = max(bar.value, scale.start, bar.mark or 0)
        axes.annotate(bar.text, (end, place), (6, 0), **_BESIDE, ha="left", fontweight="bold")
        axes.annotate(bar.aside, (1, place), (4, 0), **_BESIDE, xycoords=axes.get_yaxis_transform(), ha="left")
    axes.set_yticks([])
    axes.set_xlabel(scale.name, fontsize=MEDIUM, color=DARK)
    return figure


_BESIDE: Final[dict[str, Any]] = {
    "textcoords": "offset points",
    "va": "center",
    "fontsize": SMALL,
    "color": DARK,
    "annotation_clip": False,
}


def _set_scale(axes: Axes, bars: Sequence[Bar], scale: Scale) -> None:
    ends = [*(bar.value for bar in bars), *(bar.mark for bar in bars if bar.mark is not None)]
    plain_axes(axes)
    if not scale.baseline:
        axes.set_xlim(0, 1.3 * max(ends, default=1.0) or 1.0)
        axes.grid(axis="x", color=LIGHT, linewidth=0.7)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _position: short_number(value))
        return
    low, high = min([scale.start, *ends]), max([scale.start, *ends])
    axes.set_xscale("log")
    # Room for the text at the end of the longest bar.
    most = high * (high / low) ** 0.22 * 1.15
    axes.set_xlim(low / 1.1, most)
    ticks = [each for each in _ROUND if low / 1.1 <= each <= most]
    while len(ticks) > 6:
        ticks = [each for each in ticks if str(each).strip("0.")[0] == "1"] if len(ticks) > 9 else ticks[::2]
    axes.set_xticks(ticks, [f"{each:g}x" for each in ticks])
    axes.set_xticks([], minor=True)
    axes.grid(axis="x", color=LIGHT, linewidth=0.7)
    axes.axvline(scale.start, color=DARK, linewidth=1.5)
    axes.annotate(
        scale.baseline, (scale.start, 1), (0, 5), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
        ha="center" if low < scale.start else "left", va="bottom", fontsize=SMALL, color=DARK,
    )  # fmt: skip


_ROUND: Final = tuple(digit * 10**power for power in range(-3, 5) for digit in (1, 2, 5))


def plain_axes(axes: Axes) -> None:
    """Leave away what is not data."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LIGHT)
    axes.tick_params(labelsize=SMALL, colors=DARK, length=0)
    axes.set_axisbelow(True)


def spread(places: Sequence[float], least: float = 0.12) -> list[float]:
    """Return places, from 0 to 1, of labels that do not cover each other, as near as possible to those wanted."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    found = list(places)
    for below, above in itertools.pairwise(order):
        found[above] = max(found[above], found[below] + least)
    excess = max([0.0, *(place - 1.05 for place in found)])
    limit = 1.05
    for index in reversed(order):
        found[index] = min(found[index], limit) if excess else found[index]
        limit = found[index] - least
    return found


def short_number(value: float) -> str:
    """Return a number in a few characters, as in 41k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def save_figure(figure: Figure, path: str) -> None:
    """Write a figure. Raises ConfigError if that fails."""
    try:
        figure.savefig(path, dpi=DPI)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write {path}: {error}") from error
