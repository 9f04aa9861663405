"""Replicas: partitions without a leader, below min.insync.replicas, with replicas out of sync; fenced brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from crabka.cli.doctor.finding import (
    Finding,
    Outcome,
    counted,
    error,
    fine,
    hint,
    on_cluster,
    some,
    start_node,
    warning,
)
from crabka.clients.cluster.metadata import PartitionMetadata, TopicMetadata
from crabka.ids import TopicPartition

_Partitions = Mapping[TopicPartition, PartitionMetadata]


class PartitionFacts(NamedTuple):
    """The topics, the brokers, and min.insync.replicas by topic where it is known."""

    topics: Sequence[TopicMetadata]
    fenced: Sequence[int]
    min_in_sync: Mapping[str, int]
    is_crabka: bool


def find_partitions(facts: PartitionFacts) -> Outcome:
    """Return partitions that do not serve or that have fewer copies than they should."""
    partitions = {
        TopicPartition(topic.name, index): partition
        for topic in facts.topics
        for index, partition in sorted(topic.partitions.items())
    }
    findings = [*_fenced(facts), *_offline(facts, partitions), *_below_min(facts, partitions)]
    findings += [*_out_of_sync(facts, partitions), *_not_preferred(partitions)]
    if not findings:
        findings.append(fine(f"{counted(len(partitions), 'partition')}, all replicas in sync"))
    return Outcome(findings)


def _fenced(facts: PartitionFacts) -> Iterator[Finding]:
    held = Counter(
        replica for topic in facts.topics for partition in topic.partitions.values() for replica in partition.replicas
    )
    for broker in facts.fenced:
        if held[broker]:
            yield warning(
                f"Broker {broker} is registered but does not serve; it has {counted(held[broker], 'replica')}.",
                start_node(is_crabka=facts.is_crabka),
                [broker],
            )
        else:
            yield hint(
                f"Broker {broker} is registered, does not serve, and has no replicas.",
                on_cluster("brokers", "unregister", broker),
                [broker],
            )


def _offline(facts: PartitionFacts, partitions: _Partitions) -> Iterator[Finding]:
    offline = {name: each for name, each in partitions.items() if each.leader < 0}
    if offline:
        needed = Counter(replica for each in offline.values() for replica in each.isr or each.replicas)
        brokers = ", ".join(str(broker) for broker, _ in sorted(needed.items()))
        verb = "has" if len(offline) == 1 else "have"
        yield error(
            f"{counted(len(offline), 'partition')} {verb} no leader and cannot be read or written ({some(offline)}): "
            f"broker{'s' * (len(needed) != 1)} {brokers} must return.",
            start_node(is_crabka=facts.is_crabka),
            offline,
        )


def _below_min(facts: PartitionFacts, partitions: _Partitions) -> Iterator[Finding]:
    # As brokers do: a topic needs no more replicas in sync than it has.
    needed = {name: min(facts.min_in_sync.get(name.topic, 0), len(each.replicas)) for name, each in partitions.items()}
    below = {name: each for name, each in partitions.items() if each.leader >= 0 and len(each.isr) < needed[name]}
    if below:
        name, worst = next(iter(below.items()))
        required = needed[name]
        missing = sorted({replica for each in below.values() for replica in set(each.replicas) - set(each.isr)})
        verb = "refuses" if len(below) == 1 else "refuse"
        yield error(
            f"{counted(len(below), 'partition')} {verb} writes with acks=all ({some(below)}): {name} has "
            f"{len(worst.isr)} of the {required} replicas in sync that min.insync.replicas requires; "
            f"out of sync: broker{'s' * (len(missing) != 1)} {', '.join(map(str, missing))}.",
            start_node(is_crabka=facts.is_crabka),
            below,
        )


def _out_of_sync(facts: PartitionFacts, partitions: _Partitions) -> Iterator[Finding]:
    lacking = {
        name: each for name, each in partitions.items() if each.leader >= 0 and len(each.isr) < len(each.replicas)
    }
    if not lacking:
        return
    missing = Counter(replica for each in lacking.values() for replica in set(each.replicas) - set(each.isr))
    brokers = ", ".join(f"{broker} ({count})" for broker, count in sorted(missing.items()))
    are_stopped = set(missing) <= set(facts.fenced)
    verb = "has" if len(lacking) == 1 else "have"
    yield warning(
        f"{len(lacking):,} of {counted(len(partitions), 'partition')} {verb} replicas out of sync ({some(lacking)}); "
        f"by broker: {brokers}.",
        start_node(is_crabka=facts.is_crabka) if are_stopped else on_cluster("brokers", "list"),
        lacking,
    )


def _not_preferred(partitions: _Partitions) -> Iterator[Finding]:
    moved = [name for name, each in partitions.items() if each.leader >= 0 and each.replicas[:1] != (each.leader,)]
    ready = [name for name in moved if partitions[name].replicas[0] in partitions[name].isr]
    if ready:
        verb = "is" if len(ready) == 1 else "are"
        yield hint(
            f"{len(ready):,} of {counted(len(partitions), 'partition')} {verb} not led by the preferred replica "
            f"({some(ready)}).",
            on_cluster("partitions", "elect-leaders"),
            ready,
        )
