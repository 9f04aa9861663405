"""From single measurements to medians, ratios and verdicts. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.rows import BenchRow

Verdict = Literal["stretch", "met", "NOT MET", ""]
Samples = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row with what both brokers reached."""

    row: BenchRow
    kafka: float | None
    crabka: float | None
    ratio: float | None
    verdict: Verdict


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    if not values:
        raise ValueError("a percentile needs values")
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def judge(row: BenchRow, kafka: float | None, crabka: float | None) -> Comparison:
    """Compare the medians of both brokers with the row's bars."""
    ratio = crabka / kafka if kafka and crabka is not None else None
    judged = crabka if row.absolute else ratio
    return Comparison(row, kafka, crabka, ratio, _verdict(row, judged))


def _verdict(row: BenchRow, value: float | None) -> Verdict:
    if row.bar is None or value is None:
        return ""
    if row.stretch is not None and _reaches(row, value, row.stretch):
        return "stretch"
    return "met" if _reaches(row, value, row.bar) else "NOT MET"


def _reaches(row: BenchRow, value: float, bar: float) -> bool:
    return value >= bar if row.higher_is_better else value <= bar


def medians(samples: Samples) -> dict[str, float]:
    """The median of each row's samples."""
    return {key: statistics.median(values) for key, values in samples.items() if values}
