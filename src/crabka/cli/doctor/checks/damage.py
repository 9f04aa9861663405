"""Damage in the logs that the checks of running brokers found and could not repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crabka.cli.doctor.finding import Finding, NotApplicableError, Outcome, counted, error, fine, on_cluster
from crabka.ids import TopicPartition


class DamagedRange(NamedTuple):
    """Offsets that a broker cannot serve."""

    broker: int
    partition: TopicPartition
    first_offset: int
    last_offset: int
    file: str


class DamageFacts(NamedTuple):
    """Damaged ranges of the brokers whose metrics were read."""

    ranges: Sequence[DamagedRange]
    repaired_count: int
    read_from: Sequence[int]
    # Broker -> why its metrics could not be read.
    unread: Sequence[str] = ()


def find_damage(facts: DamageFacts) -> Outcome:
    """Return damaged ranges. Raises NotApplicableError if no broker serves metrics."""
    if not facts.read_from:
        raise NotApplicableError("; ".join(facts.unread) or "no broker serves metrics (crabka.http.listener)")
    findings = [_finding(each) for each in facts.ranges]
    if not findings:
        repaired = f", {counted(facts.repaired_count, 'range')} repaired" if facts.repaired_count else ""
        findings.append(fine(f"no damaged ranges on brokers {', '.join(map(str, facts.read_from))}{repaired}"))
    return Outcome(findings, facts.unread)


def _finding(each: DamagedRange) -> Finding:
    return error(
        f"Offsets {each.first_offset:,} to {each.last_offset:,} of {each.partition} cannot be read on broker "
        f"{each.broker}: {each.file} is damaged and no other copy was found.",
        on_cluster("log-dirs", "check", "--broker", each.broker, "--now"),
        [each.partition],
    )
