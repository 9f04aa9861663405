"""The metadata quorum: its leader, voters that are gone or behind, and how many failures it survives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import (
    Command,
    Finding,
    Outcome,
    error,
    fine,
    hint,
    on_cluster,
    some,
    start_node,
    warning,
)
from crabka.cli.units import format_duration
from crabka.clients.admin.cluster_types import DescribedQuorum, QuorumReplica
from crabka.ids import ZERO_UUID, uuid_to_text

# A follower fetches several times per second; the quorum itself gives up on a leader after 2 s.
SILENT_MS: Final = 10_000
LAGGING_MS: Final = 10_000
_ENOUGH_BROKERS: Final = 3
_LEAST_VOTERS: Final = 3


class VoterProbe(NamedTuple):
    """A voter that was tried because the quorum could not be described."""

    name: str
    failure: str | None


class QuorumFacts(NamedTuple):
    """The quorum, or why it cannot be described, with what became of its voters as far as that is known."""

    described: DescribedQuorum | None
    failure: str = ""
    probes: Sequence[VoterProbe] = ()
    active_brokers: Sequence[int] = ()
    is_crabka: bool = True


def find_quorum(facts: QuorumFacts) -> Outcome:
    """Return what endangers the metadata quorum."""
    quorum = facts.described
    if quorum is None:
        return Outcome([_undescribed(facts)])
    leader = quorum.leader
    if leader is None:
        return Outcome([error("The metadata quorum has no leader: topics and leaders cannot change.", _start(facts))])
    findings = [*_voters(facts, quorum, leader), *_size(facts, quorum), *_observers(facts, quorum, leader)]
    if not findings:
        count = len(quorum.voters)
        findings.append(fine(f"{count} voter{'s' * (count != 1)}, the leader is {quorum.leader_id}"))
    return Outcome(findings)


def _undescribed(facts: QuorumFacts) -> Finding:
    gone = [f"{each.name} ({each.failure})" for each in facts.probes if each.failure is not None]
    names = f" Unreachable from here: {some(gone)}." if gone else ""
    return error(f"No active controller answers: {facts.failure.rstrip('.')}.{names}", _start(facts))


def _start(facts: QuorumFacts) -> Command:
    return start_node(is_crabka=facts.is_crabka)


def _voters(facts: QuorumFacts, quorum: DescribedQuorum, leader: QuorumReplica) -> Iterator[Finding]:
    now_ms = leader.last_caught_up_ms
    if now_ms < 0:
        # Before version 1 the response has no times.
        return
    total = len(quorum.voters)
    majority = total // 2 + 1
    followers = [each for each in quorum.voters if each.node_id != leader.node_id]
    silent = [each for each in followers if now_ms - each.last_fetch_ms > SILENT_MS]
    spare = total - len(silent) - majority
    for each in silent:
        since = "since the leader was elected" if each.last_fetch_ms < 0 else f"for {_ago(now_ms, each.last_fetch_ms)}"
        left = f"{total - len(silent)} of {total} voters follow"
        margin = "no further failure is survived" if spare <= 0 else f"{spare} further may fail"
        yield error(f"Voter {each.node_id} has not fetched {since}: {left}, {margin}.", _start(facts), [each.node_id])
    for each in followers:
        lag = leader.log_end_offset - each.log_end_offset
        if each in silent or lag <= 0 or now_ms - each.last_caught_up_ms <= LAGGING_MS:
            continue
        behind = (
            ""
            if each.last_caught_up_ms < 0
            else f", and was last up to date {_ago(now_ms, each.last_caught_up_ms)} ago"
        )
        yield warning(
            f"Voter {each.node_id} is {lag:,} records behind the leader{behind}.",
            on_cluster("quorum", "describe", "--replication"),
            [each.node_id],
        )


def _size(facts: QuorumFacts, quorum: DescribedQuorum) -> Iterator[Finding]:
    count = len(quorum.voters)
    add = on_cluster("quorum", "add", "--config", "controller.properties")
    if count == 1:
        kind = warning if len(facts.active_brokers) >= _ENOUGH_BROKERS else hint
        yield kind("One voter holds the only copy of the metadata: if its disk is lost, so is the cluster.", add)
    elif count % 2 == 0:
        last = max(quorum.voters, key=lambda each: (each.node_id != quorum.leader_id, each.node_id))
        remove = add
        if count > _LEAST_VOTERS and last.directory_id != ZERO_UUID:
            directory = uuid_to_text(last.directory_id)
            remove = on_cluster("quorum", "remove", "--controller-id", last.node_id, "--directory-id", directory)
        survived = (count - 1) // 2
        yield warning(
            f"The quorum has {count} voters, an even number: it survives {survived} failure{'s' * (survived != 1)}, "
            f"as {f'{count - 1} voters do' if count > _LEAST_VOTERS else 'one voter does'}.",
            remove,
        )


def _observers(facts: QuorumFacts, quorum: DescribedQuorum, leader: QuorumReplica) -> Iterator[Finding]:
    now_ms = leader.last_caught_up_ms
    for each in quorum.observers:
        lag = leader.log_end_offset - each.log_end_offset
        is_late = now_ms >= 0 and now_ms - each.last_caught_up_ms > LAGGING_MS
        if each.node_id in facts.active_brokers and lag > 0 and is_late:
            yield warning(
                f"Broker {each.node_id} is {lag:,} records behind the metadata: it acts on an old state.",
                on_cluster("quorum", "describe", "--replication"),
                [each.node_id],
            )


def _ago(now_ms: int, moment_ms: int) -> str:
    return format_duration(now_ms - moment_ms)
