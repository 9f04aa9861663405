"""Shows outcomes as a table, Markdown, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.rows import BenchRow
from bench.stats import Comparison, Samples

RESULTS = Path(__file__).parent / "results"
HEADINGS = ("work", "Kafka 4.3.0", "Crabka", "ratio", "bar", "stretch", "verdict")


def cells(outcome: Comparison) -> tuple[str, ...]:
    """One line of the table as text."""
    row = outcome.row
    return (
        row.title,
        _value(outcome.kafka, row.unit),
        _value(outcome.crabka, row.unit),
        "-" if outcome.ratio is None else f"{outcome.ratio:.2f}x",
        _bar(row, row.bar),
        _bar(row, row.stretch),
        outcome.verdict or "-",
    )


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _bar(row: BenchRow, bar: float | None) -> str:
    if bar is None:
        return "-"
    sign = "≥" if row.higher_is_better else "≤"
    return f"{sign} {bar:g} {row.unit}" if row.absolute else f"{sign} {bar:g}x"


def table(outcomes: Sequence[Comparison]) -> str:
    """The table for a terminal."""
    lines = [HEADINGS, *(cells(outcome) for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def markdown(outcomes: Sequence[Comparison], facts: dict[str, str]) -> str:
    """The table and what it was measured on, as a Markdown page."""
    head = ["# Crabka and Apache Kafka 4.3.0", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    rule = "|".join(["---"] * len(HEADINGS))
    body = [f"| {' | '.join(cells(outcome))} |" for outcome in outcomes]
    return "\n".join([*head, f"| {' | '.join(HEADINGS)} |", f"|{rule}|", *body, ""])


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


def plot(outcomes: Sequence[Comparison], path: Path) -> None:
    """Bars of the factor by which Crabka is better (right of 1) or worse (left) than Kafka, on a log scale."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    drawn = [(outcome.row, outcome.ratio) for outcome in outcomes if outcome.ratio]
    if not drawn:
        return
    factors = [ratio if row.higher_is_better else 1 / ratio for row, ratio in drawn]
    titles = [row.title for row, _ratio in drawn]
    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(drawn) + 1.5))
    bars = axes.barh(titles, factors, color=["tab:green" if factor >= 1 else "tab:red" for factor in factors])
    axes.bar_label(bars, labels=[f" {factor:.2f}x" for factor in factors])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("times better than Apache Kafka 4.3.0 (log scale)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


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


def write_all(
    name: str, outcomes: Sequence[Comparison], samples: dict[str, Samples], facts: dict[str, str]
) -> list[Path]:
    """Write `<name>.json`, `.md` and `.png` below bench/results and return their paths."""
    RESULTS.mkdir(exist_ok=True)
    paths = [RESULTS / f"{name}{suffix}" for suffix in (".json", ".md", ".png")]
    paths[0].write_text(as_json(outcomes, samples, facts))
    paths[1].write_text(markdown(outcomes, facts))
    plot(outcomes, paths[2])
    return [path for path in paths if path.exists()]
