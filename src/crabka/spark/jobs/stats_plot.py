"""A picture of a tier's statistics: per topic and day records, bytes, keys and lag, as a PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from crabka.spark.jobs.stats import TopicDay

_MIB: Final = 1 << 20
_PANELS: Final[tuple[tuple[str, Callable[[TopicDay], float]], ...]] = (
    ("records", lambda day: day.records),
    ("MiB stored", lambda day: day.stored_bytes / _MIB),
    ("keys", lambda day: day.keys),
    ("lag to the tier, mean, minutes", lambda day: day.lag_mean_ms / 60_000),
)


def plot_stats(days: Sequence[TopicDay], path: str) -> None:
    """Draw what has a day. Raises ConfigError if matplotlib is missing or the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("a plot needs matplotlib: pip install matplotlib") from None

    figure = Figure(figsize=(10, 9), layout="constrained")
    topics = sorted({day.topic for day in days})
    for panel, (title, value) in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
        for topic in topics:
            mine = [day for day in days if day.topic == topic and day.day is not None]
            panel.plot([day.day for day in mine], [value(day) for day in mine], marker="o", label=topic)
        panel.set_title(title)
        panel.tick_params(axis="x", rotation=45)
        panel.set_ylim(bottom=0)
    if topics:
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write {path}: {error}") from error
