"""Consumer groups: offsets outside their logs, records that retention removes before they are read, dead groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Command, Finding, Outcome, counted, error, fine, hint, on_cluster, some, warning
from crabka.cli.units import format_duration
from crabka.ids import TopicPartition

# Share of retention.ms after which an unread record is close to its removal.
EXPIRING_SHARE: Final = 0.8


class GroupPosition(NamedTuple):
    """A committed offset of a group, and the log that it is about."""

    group: str
    has_members: bool
    partition: TopicPartition
    committed: int
    # Unknown without a leader.
    log_start: int | None
    log_end: int | None
    # The first offset that is not close to its removal; None if nothing is removed by age, or if it is not known.
    expiring_end: int | None = None
    retention_ms: int = -1

    @property
    def lag(self) -> int:
        """How many offsets are not read."""
        return 0 if self.log_end is None else max(0, self.log_end - self.committed)

    @property
    def lost(self) -> int:
        """How many offsets were removed before they were read."""
        return 0 if self.log_start is None else max(0, self.log_start - self.committed)


class GroupFacts(NamedTuple):
    """The committed offsets of all groups, and the groups that could not be read."""

    positions: Sequence[GroupPosition]
    group_count: int
    unreadable: Sequence[str] = ()


def find_groups(facts: GroupFacts) -> Outcome:
    """Return groups that lost or lose records, whose offsets fit no log, or that have no members."""
    findings = [*_lost(facts), *_beyond(facts), *_expiring(facts), *_abandoned(facts)]
    if not findings:
        lag = sum(each.lag for each in facts.positions)
        findings.append(fine(f"{counted(facts.group_count, 'group')}, {lag:,} records not read yet"))
    return Outcome(findings, facts.unreadable)


def _by_group(positions: Sequence[GroupPosition]) -> dict[str, list[GroupPosition]]:
    found: dict[str, list[GroupPosition]] = defaultdict(list)
    for each in positions:
        found[each.group].append(each)
    return found


def _lost(facts: GroupFacts) -> Iterator[Finding]:
    for group, found in _by_group([each for each in facts.positions if each.lost]).items():
        worst = max(found, key=lambda each: each.lost)
        kind = error if worst.has_members else warning
        yield kind(
            f"Group {group}{_without_members(worst)} missed {sum(each.lost for each in found):,} records that are "
            f"removed: its offset {worst.committed:,} in {worst.partition} is below the log start {worst.log_start:,}"
            f"{_also(found)}.",
            _reset(group, found, "--to-earliest"),
            [each.partition for each in found],
        )


def _beyond(facts: GroupFacts) -> Iterator[Finding]:
    beyond = [each for each in facts.positions if each.log_end is not None and each.committed > each.log_end]
    for group, found in _by_group(beyond).items():
        worst = found[0]
        yield error(
            f"Group {group} committed offset {worst.committed:,} in {worst.partition}, whose log ends at "
            f"{worst.log_end:,}: the topic was created again or lost records{_also(found)}.",
            _reset(group, found, "--to-latest"),
            [each.partition for each in found],
        )


def _expiring(facts: GroupFacts) -> Iterator[Finding]:
    near = [
        each
        for each in facts.positions
        if each.expiring_end is not None and each.lag and not each.lost and each.committed < each.expiring_end
    ]
    for group, found in _by_group(near).items():
        worst = max(found, key=lambda each: (each.expiring_end or 0) - each.committed)
        count = sum((each.expiring_end or 0) - each.committed for each in found)
        retention, longer = format_duration(worst.retention_ms), f"retention.ms={worst.retention_ms * 2}"
        yield warning(
            f"Group {group}{_without_members(worst)} is about to lose {count:,} unread records: in {worst.partition} "
            f"they are older than {EXPIRING_SHARE:.0%} of retention.ms ({retention}){_also(found)}.",
            on_cluster("configs", "alter", "topic", worst.partition.topic, "--set", longer),
            [each.partition for each in found],
        )


def _abandoned(facts: GroupFacts) -> Iterator[Finding]:
    lags: dict[str, int] = defaultdict(int)
    for each in facts.positions:
        if not each.has_members and each.lag:
            lags[each.group] += each.lag
    if lags:
        by_lag = sorted(lags, key=lambda group: -lags[group])
        shown = some(f"{group} ({lags[group]:,})" for group in by_lag)
        verb = "has" if len(lags) == 1 else "have"
        yield hint(
            f"{counted(len(lags), 'group')} {verb} no members and unread records: {shown}.",
            on_cluster("groups", "describe", by_lag[0]),
            by_lag,
        )


def _without_members(position: GroupPosition) -> str:
    return "" if position.has_members else ", which has no members,"


def _also(found: Sequence[GroupPosition]) -> str:
    return f" (and so in {counted(len(found) - 1, 'other partition')})" if len(found) > 1 else ""


def _reset(group: str, found: Sequence[GroupPosition], where: str) -> Command:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for each in found:
        by_topic[each.partition.topic].append(each.partition.partition)
    places = [word for topic, indexes in sorted(by_topic.items()) for word in ("--topic", _place(topic, indexes))]
    return on_cluster("groups", "reset", group, *places, where, "--execute")


def _place(topic: str, indexes: Sequence[int]) -> str:
    return f"{topic}:{','.join(map(str, sorted(indexes)))}"
