"""Clocks: timestamps that the protocol returns, against the clock of this machine.

DescribeQuorum has the time of the active controller in the row of the leader. Of other brokers only a lower bound is
known: the newest record that they wrote to a topic of the coordinators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Finding, Outcome, brokers, error, fine, shell, warning
from crabka.cli.units import format_duration

# Below this a difference changes nothing that is measured in seconds: timeouts, retention, sessions.
TOLERATED_MS: Final = 1_000
SEVERE_MS: Final = 60_000


class ClockReading(NamedTuple):
    """The time of a node, read between two moments of this machine."""

    node: int
    node_ms: int
    asked_ms: int
    answered_ms: int

    @property
    def ahead_ms(self) -> int:
        """By how much it is ahead at least; negative if it is behind; 0 if the reading cannot say."""
        if self.node_ms > self.answered_ms:
            return self.node_ms - self.answered_ms
        return min(0, self.node_ms - self.asked_ms)


class ClockFacts(NamedTuple):
    """Readings of the active controller, and the newest records that brokers stamped."""

    controllers: Sequence[ClockReading]
    stamped: Sequence[ClockReading]
    unread: Sequence[int] = ()


def find_clock(facts: ClockFacts) -> Outcome:
    """Return clocks that differ from that of this machine."""
    findings = [*_skewed(facts.controllers)]
    findings += _skewed([each for each in facts.stamped if each.ahead_ms > 0])
    if not findings and facts.controllers:
        nodes = ", ".join(str(each.node) for each in facts.controllers)
        findings.append(fine(f"the clock of controller {nodes} agrees with this machine"))
    return Outcome(findings, [f"no answer has the time of {brokers(facts.unread)}"] if facts.unread else [])


def _skewed(readings: Sequence[ClockReading]) -> Iterator[Finding]:
    for each in readings:
        size_ms = abs(each.ahead_ms)
        if size_ms < TOLERATED_MS:
            continue
        direction = "ahead of" if each.ahead_ms > 0 else "behind"
        kind = error if size_ms >= SEVERE_MS else warning
        yield kind(
            f"The clock of node {each.node} is {format_duration(size_ms)} {direction} that of this machine.",
            shell("timedatectl", "set-ntp", "true"),
            [each.node],
        )
