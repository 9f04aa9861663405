"""The report of an examination: text of the width of the terminal, lines with tabs for pipes, JSON for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from crabka.cli.doctor.examination import Examination
from crabka.cli.doctor.finding import Finding, Severity, counted
from crabka.cli.output import print_json, print_rows

# Programs check it; it rises when a field changes its meaning or goes.
SCHEMA: Final = 1
COLUMNS: Final = ("severity", "check", "reason", "command")
_ORDER: Final = tuple(Severity)
_INDENT: Final = " " * 9
_NARROWEST: Final = 40
_WIDEST: Final = 100


def print_report(found: Examination, *, as_json: bool, quiet: bool, cluster_options: Sequence[str]) -> None:
    """Print an examination; `quiet` prints errors and warnings alone."""
    if as_json:
        print_json(as_document(found, cluster_options))
    elif sys.stdout.isatty():
        width = min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns))
        for line in report_lines(found, width=width, quiet=quiet, cluster_options=cluster_options):
            print(line)
    else:
        rows = [
            row for row in finding_rows(found, cluster_options) if not quiet or Severity(row["severity"]).is_problem
        ]
        print_rows(COLUMNS, rows, as_json=False)


def as_document(found: Examination, cluster_options: Sequence[str] = ()) -> dict[str, Any]:
    """Return the examination as JSON shows it."""
    counts = Counter(finding.severity.value for _, finding in found.findings)
    target = found.target
    return {
        "schema": SCHEMA,
        "healthy": found.is_healthy,
        "cluster": target.cluster_id or None,
        "brokers": list(target.brokers),
        "fenced": list(target.fenced),
        "software": target.software or None,
        "data_dir": target.data_dir,
        "counts": {severity.value: counts[severity.value] for severity in _ORDER},
        "findings": finding_rows(found, cluster_options),
        "not_checked": [{"check": name, "reason": reason} for name, reason in _not_checked(found)],
    }


def finding_rows(found: Examination, cluster_options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the findings, the worst first."""
    return [
        {
            "severity": finding.severity.value,
            "check": name,
            "reason": finding.reason,
            "command": None if finding.command is None else finding.command.text(cluster_options),
            "places": list(finding.places),
        }
        for name, finding in _sorted(found.findings)
    ]


def report_lines(
    found: Examination, *, width: int, quiet: bool = False, cluster_options: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the report for people: problems and hints with their commands, then in short what is fine or unknown."""
    if not quiet:
        yield from textwrap.wrap(_title(found), width)
        yield ""
    for name, finding in _sorted(found.findings):
        if finding.severity.is_problem or (finding.severity is Severity.HINT and not quiet):
            yield from _finding_lines(name, finding, width, cluster_options)
            yield ""
    if quiet:
        return
    bad = {name for name, finding in found.findings if finding.severity is not Severity.OK}
    sound = [result.name for result in found.results if result.skipped is None and result.name not in bad]
    if sound:
        yield from _wrapped("fine: ", ", ".join(sound), width)
    unknown = list(_not_checked(found))
    if unknown:
        yield "not checked:"
        for name, reason in _by_reason(unknown):
            yield from _wrapped(f"  {name}: ", reason, width, hanging=4)
    yield _summary(found)


def _sorted(findings: Sequence[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    return sorted(findings, key=lambda each: _ORDER.index(each[1].severity))


def _not_checked(found: Examination) -> Iterator[tuple[str, str]]:
    for result in found.results:
        if result.skipped is not None:
            yield result.name, result.skipped
        for reason in result.unknown:
            yield result.name, reason


def _by_reason(unknown: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the names of checks that lack something for the same reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in unknown:
        names.setdefault(reason, []).append(name)
    return [(", ".join(found), reason) for reason, found in names.items()]


def _title(found: Examination) -> str:
    target = found.target
    if target.data_dir is not None:
        return f"crabka doctor: {target.data_dir}"
    active, registered = len(target.brokers), len(target.brokers) + len(target.fenced)
    count = f"{active} of {counted(registered, 'broker')}" if target.fenced else counted(active, "broker")
    return f"crabka doctor: cluster {target.cluster_id}, {count}, {target.software}"


def _finding_lines(name: str, finding: Finding, width: int, cluster_options: Sequence[str]) -> Iterator[str]:
    label = f"{finding.severity.value.upper():<9}"
    yield from _wrapped(label, f"{name}: {finding.reason}", width, hanging=len(_INDENT))
    if finding.command is not None:
        # Never wrapped: it is to be copied.
        yield f"{_INDENT}$ {finding.command.text(cluster_options)}"


def _wrapped(start: str, text: str, width: int, hanging: int | None = None) -> list[str]:
    indent = " " * (len(start) if hanging is None else hanging)
    # Addresses, paths and names stay whole, so that they can be copied.
    return textwrap.wrap(
        _printable(text), width, initial_indent=start, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _summary(found: Examination) -> str:
    counts = Counter(finding.severity for _, finding in found.findings)
    parts = [counted(counts[each], each.value) for each in _ORDER if each is not Severity.OK and counts[each]]
    return ", ".join(parts) if parts else "no problems found"
