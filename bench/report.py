"""Shows outcomes as a table, Markdown, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rows import BenchRow
from bench.stats import Comparison, Samples
from crabka.spark.plots import Bar, Scale, draw_bars, save_figure, short_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
KAFKA = "Apache Kafka 4.3.0"


def headings(baseline: str) -> tuple[str, ...]:
    """Return the names of the columns."""
    return ("work", baseline, "Crabka", "ratio", "bar", "stretch", "verdict")


def cells(outcome: Comparison) -> tuple[str, ...]:
    """One line of the table as text."""
    row = outcome.row
    return (
        row.title,
        value_text(outcome.kafka, row.unit),
        value_text(outcome.crabka, row.unit),
        "-" if outcome.ratio is None else f"{outcome.ratio:.2f}x",
        _bar(row, row.bar),
        _bar(row, row.stretch),
        outcome.verdict or "-",
    )


def value_text(value: float | None, unit: str) -> str:
    """Return a number with its unit; a dash for none."""
    if value is None:
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _bar(row: BenchRow, bar: float | None) -> str:
    if bar is None:
        return "-"
    sign = "≥" if row.higher_is_better else "≤"
    return f"{sign} {bar:g} {row.unit}" if row.absolute else f"{sign} {bar:g}x"


def table(outcomes: Sequence[Comparison], baseline: str = KAFKA) -> str:
    """The table for a terminal."""
    lines = [headings(baseline), *(cells(outcome) for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def markdown(
    outcomes: Sequence[Comparison], facts: dict[str, str], baseline: str = KAFKA, subject: str = "One broker"
) -> str:
    """The table and what it was measured on, as a Markdown page."""
    title = f"# {subject}: Crabka and {baseline}"
    head = [title, "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    columns = headings(baseline)
    rule = "|".join(["---"] * len(columns))
    body = [f"| {' | '.join(cells(outcome))} |" for outcome in outcomes]
    return "\n".join([*head, f"| {' | '.join(columns)} |", f"|{rule}|", *body, ""])


def as_json(outcomes: Sequence[Comparison], samples: dict[str, Samples], facts: dict[str, str]) -> str:
    """Medians, verdicts and every single sample."""
    rows = {
        outcome.row.key: {
            "title": outcome.row.title,
            "unit": outcome.row.unit,
            "kafka": outcome.kafka,
            "crabka": outcome.crabka,
            "ratio": outcome.ratio,
            "bar": outcome.row.bar,
            "stretch": outcome.row.stretch,
            "verdict": outcome.verdict,
        }
        for outcome in outcomes
    }
    return json.dumps({"facts": facts, "rows": rows, "samples": samples}, indent=2, ensure_ascii=False) + "\n"


def read_samples(name: str, work: str) -> dict[str, Samples]:
    """Return the samples of `<name>.json` below bench/results, none if there is no such file.

    Raises ValueError if they are about another amount of work.
    """
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    if found["facts"]["work"] != work:
        raise ValueError(f"{path} is about {found['facts']['work']}, which does not go with {work}")
    samples: dict[str, Samples] = found["samples"]
    return samples


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, on what, beside which baseline."""

    outcomes: Sequence[Comparison]
    samples: dict[str, Samples]
    facts: dict[str, str]
    subject: str = "One broker"
    baseline: str = KAFKA

    def write(self, name: str) -> list[Path]:
        """Write `<name>.json`, `.md` and `.png` below bench/results and return their paths."""
        RESULTS.mkdir(exist_ok=True)
        paths = [RESULTS / f"{name}{suffix}" for suffix in (".json", ".md", ".png")]
        paths[0].write_text(as_json(self.outcomes, self.samples, self.facts))
        paths[1].write_text(markdown(self.outcomes, self.facts, self.baseline, self.subject))
        figure = comparison_figure(self)
        if figure is not None:
            save_figure(figure, str(paths[2]))
        return [path for path in paths if path.exists()]


def comparison_figure(report: Report) -> Figure | None:
    """Draw the factor by which Crabka is better (right of 1) or worse (left) than the baseline; None without rows."""
    drawn = [each for each in report.outcomes if each.ratio and each.row.is_compared and each.row.unit != "x"]
    if not drawn:
        return None
    bars = [_bar_of(outcome) for outcome in drawn]
    facts = report.facts
    how = facts["runs"].partition(",")[0]
    subtitle = (
        f"Right of 1x Crabka is better. On the right: the figure of Crabka (of {report.baseline}). A dark mark is the "
        f"factor that was required. {how.capitalize()} runs on {facts['machine'].partition(',')[0]}, {facts['date']}."
    )
    scale = Scale(f"times as good as {report.baseline}, log scale", 1.0, f"1x = {report.baseline}")
    return draw_bars(f"{report.subject}: Crabka against {report.baseline}", subtitle, bars, scale)


def _bar_of(outcome: Comparison) -> Bar:
    row, ratio = outcome.row, outcome.ratio or 1.0
    factor = ratio if row.higher_is_better else 1 / ratio
    mark = None
    if row.bar is not None and not row.absolute:
        mark = row.bar if row.higher_is_better else 1 / row.bar
    crabka, kafka = short_number(outcome.crabka or 0.0), short_number(outcome.kafka or 0.0)
    values = f"{crabka} {row.unit.removesuffix(' of a core')} ({kafka})"
    return Bar(row.title, factor, _factor(factor), values, mark, is_good=factor >= 1)


def _factor(factor: float) -> str:
    return f"{factor:.0f}x" if factor >= 10 else f"{factor:.1f}x" if factor >= 1 else f"{factor:.2f}x"
