"""A picture of a tier's statistics: per topic and day records, bytes, keys and lag, as a PNG.

Days are side by side, one day is a bar for each topic. Beyond some topics the smallest ones are drawn as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.spark.plots import (
    DARK,
    LIGHT,
    MEDIUM,
    SERIES,
    SMALL,
    new_figure,
    plain_axes,
    save_figure,
    short_number,
    spread,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crabka.spark.jobs.stats import TopicDay


class _Panel(NamedTuple):
    title: str
    value: Callable[[TopicDay], float]


_MIB: Final = 1 << 20
_PANELS: Final = (
    _Panel("records", lambda day: day.records),
    _Panel("stored, MiB", lambda day: day.stored_bytes / _MIB),
    _Panel("different keys", lambda day: day.keys),
    _Panel("mean lag from event to tier, minutes", lambda day: day.lag_mean_ms / 60_000),
)
_MOST_TOPICS: Final = len(SERIES)
_TOPIC_COLUMNS: Final = 13
# Days with a name below them.
_NAMED_DAYS: Final = 4


def plot_stats(days: Sequence[TopicDay], path: str) -> None:
    """Draw what has a day. Raises ConfigError if matplotlib is missing or the file cannot be written."""
    known = merged([day for day in days if day.day is not None])
    dates = sorted({day.day for day in known if day.day is not None})
    span = "no day is known" if not dates else f"{dates[0]}" if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    figure = new_figure(
        "What is in the tier, per topic and day", f"Days of the records' timestamps in UTC: {span}.", 8, width=12
    )
    for index, panel in enumerate(_PANELS):
        axes = figure.add_axes((0.05 + 0.50 * (index % 2), 0.52 - 0.46 * (index // 2), 0.27, 0.31))
        plain_axes(axes)
        axes.set_title(panel.title, fontsize=MEDIUM, color=DARK, loc="left", pad=10)
        if len(dates) == 1:
            _draw_bars(axes, known, panel)
        elif dates:
            _draw_lines(axes, known, panel, dates)
        else:
            axes.set_axis_off()
    save_figure(figure, path)


def merged(days: Sequence[TopicDay]) -> list[TopicDay]:
    """Return the days of the topics with the most records; those of all others as of one topic."""
    totals: dict[str, int] = {}
    for day in days:
        totals[day.topic] = totals.get(day.topic, 0) + day.records
    largest = sorted(totals, key=lambda topic: (-totals[topic], topic))
    if len(largest) <= _MOST_TOPICS:
        return sorted(days, key=lambda day: (largest.index(day.topic), day.day or date.min))
    kept, rest = largest[: _MOST_TOPICS - 1], set(largest[_MOST_TOPICS - 1 :])
    others = sorted((day for day in days if day.topic in rest), key=lambda day: day.day or date.min)
    together = [_sum(f"{len(rest)} others", list(found)) for _, found in groupby(others, key=lambda day: day.day)]
    return merged([day for day in days if day.topic in kept]) + together


def _sum(name: str, days: list[TopicDay]) -> TopicDay:
    records = sum(day.records for day in days)
    return replace(
        days[0],
        topic=name,
        records=records,
        record_bytes=sum(day.record_bytes for day in days),
        keys=sum(day.keys for day in days),
        stored_bytes=sum(day.stored_bytes for day in days),
        lag_mean_ms=sum(day.lag_mean_ms * day.records for day in days) / max(records, 1),
        lag_max_ms=max(day.lag_max_ms for day in days),
    )


def _topics(days: Sequence[TopicDay]) -> list[str]:
    return list(dict.fromkeys(day.topic for day in days))


def _draw_bars(axes: Axes, days: Sequence[TopicDay], panel: _Panel) -> None:
    values = [panel.value(day) for day in days]
    places = range(len(days))
    axes.barh(places, values, color=[SERIES[index] for index in places], height=0.6)
    axes.set_ylim(max(len(days), 3) - 0.5, -0.5)
    axes.set_xlim(0, 1.2 * max(values) or 1)
    for place, day, value in zip(places, days, values, strict=True):
        text = f"{short_name(day.topic)}  {short_number(value)}"
        axes.annotate(text, (value, place), (6, 0), textcoords="offset points", va="center", fontsize=SMALL, color=DARK)
    axes.set_yticks([])
    axes.set_xticks([])


def _draw_lines(axes: Axes, days: Sequence[TopicDay], panel: _Panel, dates: Sequence[date]) -> None:
    first = dates[0]
    width = (dates[-1] - first).days
    ends: list[tuple[float, str, str]] = []
    for topic, colour in zip(_topics(days), SERIES, strict=False):
        mine = [(day.day - first, panel.value(day)) for day in days if day.topic == topic and day.day is not None]
        axes.plot([at.days for at, _ in mine], [value for _, value in mine], marker="o", color=colour, linewidth=2)
        ends.append((mine[-1][1], topic, colour))
    most = max(panel.value(day) for day in days) or 1
    axes.set_ylim(0, 1.1 * most)
    axes.set_xlim(-0.05 * width, 1.03 * width)
    for place, (value, topic, colour) in zip(spread([end[0] / most for end in ends]), ends, strict=True):
        axes.annotate(
            f"{short_name(topic)}  {short_number(value)}",
            (1, place / 1.1),
            (8, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colour,
            annotation_clip=False,
        )
    step = max(1, -(-width // _NAMED_DAYS))
    named = range(0, width + 1, step)
    axes.set_xticks(named, [(first + timedelta(days=each)).strftime("%d %b") for each in named])
    axes.locator_params(axis="y", nbins=4)
    axes.set_yticks(axes.get_yticks()[1:-1])
    axes.yaxis.set_major_formatter(lambda value, _position: short_number(value))
    axes.tick_params(axis="y", pad=2)
    axes.grid(axis="y", color=LIGHT, linewidth=0.7)


def short_name(topic: str) -> str:
    """Return the name of a topic, cut if it is long."""
    return topic if len(topic) <= _TOPIC_COLUMNS else f"{topic[: _TOPIC_COLUMNS - 1]}…"
