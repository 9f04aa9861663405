"""The remote tier: segments that wait to be copied, logs that end before their tier, damage, failed requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Finding, Outcome, counted, error, fine, hint, on_cluster, some, warning
from crabka.cli.units import format_size
from crabka.ids import TopicPartition
from crabka.remote.scrub import Severity, TierFault

# Sealed segments are copied within a minute; these many that wait mean that copies fail or are too slow.
LATE_SEGMENTS: Final = 4


class TieredPartition(NamedTuple):
    """A tiered partition; None is not known."""

    partition: TopicPartition
    lag_bytes: int | None
    lag_segments: int | None
    # Segments in the tier at or above the end of the log.
    beyond_end: int | None


class TierFacts(NamedTuple):
    """The tiered partitions, what a look into the storage found, and errors that brokers counted."""

    partitions: Sequence[TieredPartition]
    # None if the storage was not read; `unread` says why.
    faults: Sequence[TierFault] | None = None
    unread: str = ""
    # Kind of request -> failures since the brokers started.
    failures: Mapping[str, int] | None = None
    tier_url: str | None = None


def find_tier(facts: TierFacts) -> Outcome:
    """Return what is wrong with the tier."""
    findings = [*_beyond(facts), *_lag(facts), *_faults(facts), *_failures(facts)]
    if not findings:
        text = f"{counted(len(facts.partitions), 'partition')} tiered"
        findings.append(fine(text if facts.faults is None else f"{text}, no object is missing"))
    unknown = [f"objects in the storage: {facts.unread}"] if facts.faults is None and facts.unread else []
    if facts.failures is None:
        unknown.append("failed copies: no broker serves metrics (crabka.http.listener)")
    return Outcome(findings, unknown)


def _beyond(facts: TierFacts) -> Iterator[Finding]:
    for each in facts.partitions:
        if each.beyond_end:
            topic, index = each.partition
            yield warning(
                f"The log of {each.partition} ends before its tier, which has {counted(each.beyond_end, 'segment')} "
                "more: the leader lost records that the tier has.",
                on_cluster("tier", "forget", f"{topic}:{index}"),
                [each.partition],
            )


def _lag(facts: TierFacts) -> Iterator[Finding]:
    late = [each for each in facts.partitions if (each.lag_segments or 0) >= LATE_SEGMENTS]
    if late:
        worst = max(late, key=lambda each: each.lag_bytes or 0)
        total = sum(each.lag_bytes or 0 for each in late)
        verb = "waits" if len(late) == 1 else "wait"
        yield warning(
            f"{counted(len(late), 'partition')} {verb} to be copied, {format_size(total)} in all; the most is "
            f"{worst.partition} with about {worst.lag_segments} segments.",
            on_cluster("tier", "status", worst.partition.topic),
            [each.partition for each in late],
        )


def _faults(facts: TierFacts) -> Iterator[Finding]:
    place = () if facts.tier_url is None else ("--tier", facts.tier_url)
    for severity, kind, noun in ((Severity.DAMAGE, error, "damage"), (Severity.LEAK, hint, "leftovers")):
        found = [each for each in facts.faults or () if each.severity is severity]
        if found:
            first = found[0]
            more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
            yield kind(
                f"The tier has {noun}: {first.kind.value} at {first.place}: {first.detail}{more}.",
                on_cluster("tier", "verify", *place),
                [each.place for each in found],
            )


def _failures(facts: TierFacts) -> Iterator[Finding]:
    failed = {kind: count for kind, count in (facts.failures or {}).items() if count}
    if failed:
        shown = some(f"{count:,} {kind}" for kind, count in sorted(failed.items()))
        yield warning(
            f"Requests to the tier failed since the brokers started: {shown}.", on_cluster("tier", "status"), failed
        )
