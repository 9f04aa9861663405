"""Produce latency with and without a reader of the tier beside it, and how it looks over time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.loads import produce_timed
from bench.stats import percentile
from bench.tier_reads import READING
from crabka.spark.plots import BAD, DARK, GOOD, MEDIUM, SMALL, new_figure, plain_axes, save_figure, spread

RATE = 5_000
WINDOW_SECONDS = 0.5
Timed = list[tuple[float, float]]


@dataclass(slots=True)
class Phases:
    """Latencies of one run, by when they were measured; phases with and without a reader take turns."""

    alone: Timed = field(default_factory=list)
    beside: Timed = field(default_factory=list)

    def p99(self, *, is_reading: bool) -> float:
        """The p99 of all phases of one kind."""
        return percentile([latency for _sent, latency in (self.beside if is_reading else self.alone)], 99)


@contextmanager
def reading(bootstrap: str, count: int, megabytes_per_second: float) -> Iterator[None]:
    """A process that reads the tiered topic while the block runs."""
    command = [sys.executable, "-m", "bench.tier_reads", bootstrap, str(count), str(megabytes_per_second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            if reader.stdout is None or reader.stdout.readline().strip() != READING:
                raise RuntimeError("the reader of the tier does not read")
            yield
            if reader.poll() is not None:
                raise RuntimeError("the reader of the tier gave up")
        finally:
            reader.kill()


def measure_phases(bootstrap: str, count: int, megabytes_per_second: float, seconds: float, rounds: int) -> Phases:
    """Produce at a steady rate, with a reader in every second phase."""
    found = Phases()
    for number in range(rounds):
        begin = 2 * number * seconds
        found.alone += _shifted(produce_timed(bootstrap, RATE, seconds), begin)
        with reading(bootstrap, count, megabytes_per_second):
            found.beside += _shifted(produce_timed(bootstrap, RATE, seconds), begin + seconds)
    return found


def _shifted(timed: Timed, seconds: float) -> Timed:
    return [(sent + seconds, latency) for sent, latency in timed]


def windows(timed: Sequence[tuple[float, float]], width: float = WINDOW_SECONDS) -> Timed:
    """The p99 of each stretch of time in which anything was sent, at the middle of it."""
    by_window: dict[int, list[float]] = {}
    for sent, latency in timed:
        by_window.setdefault(int(sent / width), []).append(latency)
    return [((number + 0.5) * width, percentile(found, 99)) for number, found in sorted(by_window.items())]


def draw_phases(phases: dict[str, Phases], path: Path) -> None:
    """Plot the p99 over time, one picture per broker."""
    subtitle = (
        f"Each dot is the p99 of {WINDOW_SECONDS:g} s at {RATE:,} msg/s; lines and numbers are the p99 of all phases "
        "of a kind. The axes of the brokers differ."
    )
    height = 1.5 + 3.4 * len(phases)
    figure = new_figure("Produce latency while a consumer reads the tier", subtitle, height)
    for index, (broker, found) in enumerate(phases.items()):
        axes = figure.add_axes((0.09, (0.8 + 3.4 * (len(phases) - 1 - index)) / height, 0.62, 2.4 / height))
        plain_axes(axes)
        axes.set_title(f"{broker}: p99 produce latency, ms", fontsize=MEDIUM, color=DARK, loc="left")
        kinds = (("alone", found.alone, GOOD), ("with a tier read", found.beside, BAD))
        most = max(latency for _sent, latency in [*windows(found.alone), *windows(found.beside)])
        levels = [percentile([latency for _sent, latency in timed], 99) for _kind, timed, _colour in kinds]
        places = spread([level / most for level in levels])
        for (kind, timed, colour), level, place in zip(kinds, levels, places, strict=True):
            axes.plot(*zip(*windows(timed), strict=True), "o", color=colour)
            axes.axhline(level, color=colour, linewidth=1.5)
            note = f"{kind}: {level:,.1f} ms"
            axes.text(1.02, place / 1.1, note, transform=axes.transAxes, fontsize=SMALL, color=colour, va="center")
        axes.set_ylim(0, 1.1 * most)
        axes.set_xlabel("seconds since the begin", fontsize=SMALL, color=DARK)
    save_figure(figure, str(path))
