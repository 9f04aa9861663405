"""Findings about the metadata quorum."""

from __future__ import annotations

from uuid import UUID

import pytest

from crabka.cli.doctor.checks.quorum import QuorumFacts, VoterProbe, find_quorum
from crabka.clients.admin.cluster_types import DescribedQuorum, QuorumReplica
from crabka.ids import ZERO_UUID
from tests.support.doctor.findings import line, only, texts

NOW = 1_000_000
END = 500
START = "crabka serve --config server.properties"


def voter(
    node_id: int, *, fetched_ms: int = NOW, caught_up_ms: int = NOW, end: int = END, directory: UUID = ZERO_UUID
) -> QuorumReplica:
    return QuorumReplica(node_id, directory, end, fetched_ms, caught_up_ms)


def facts(*voters: QuorumReplica, leader: int = 1, observers: tuple[QuorumReplica, ...] = ()) -> QuorumFacts:
    described = DescribedQuorum(leader, 3, END, voters, observers, {})
    return QuorumFacts(described, active_brokers=[each.node_id for each in (*voters, *observers)])


def test_three_voters_that_follow_are_fine() -> None:
    assert texts(find_quorum(facts(voter(1), voter(2), voter(3)))) == [("ok", "3 voters, the leader is 1")]


def test_a_voter_that_does_not_fetch_is_an_error() -> None:
    found = only(find_quorum(facts(voter(1), voter(2), voter(3, fetched_ms=NOW - 45_000, end=400))))
    assert found.reason == ("Voter 3 has not fetched for 45s: 2 of 3 voters follow, no further failure is survived.")
    assert (found.severity.value, line(found), found.places) == ("error", START, ("3",))


def test_five_voters_survive_a_second_failure() -> None:
    found = only(find_quorum(facts(*map(voter, (1, 2, 3, 4)), voter(5, fetched_ms=-1))))
    assert found.reason == (
        "Voter 5 has not fetched since the leader was elected: 4 of 5 voters follow, 1 further may fail."
    )


def test_a_voter_that_fetches_and_stays_behind_is_a_warning() -> None:
    found = only(find_quorum(facts(voter(1), voter(2), voter(3, caught_up_ms=NOW - 60_000, end=100))))
    assert found.reason == "Voter 3 is 400 records behind the leader, and was last up to date 1m 0s ago."
    assert (found.severity.value, line(found)) == ("warning", "crabka quorum describe --replication")
    found = only(find_quorum(facts(voter(1), voter(2), voter(3, caught_up_ms=-1, end=100))))
    assert found.reason == "Voter 3 is 400 records behind the leader."


def test_a_moment_of_lag_is_ordinary() -> None:
    assert (
        only(find_quorum(facts(voter(1), voter(2), voter(3, caught_up_ms=NOW - 300, end=490)))).severity.value == "ok"
    )


def test_answers_without_times_say_nothing_of_voters() -> None:
    old = [voter(each, fetched_ms=-1, caught_up_ms=-1) for each in (1, 2, 3)]
    assert only(find_quorum(facts(*old))).severity.value == "ok"


@pytest.mark.parametrize(("brokers", "severity"), [([1], "hint"), ([1, 2, 3], "warning")])
def test_one_voter_is_the_only_copy(brokers: list[int], severity: str) -> None:
    found = only(find_quorum(facts(voter(1))._replace(active_brokers=brokers)))
    assert (found.severity.value, line(found)) == (severity, "crabka quorum add --config controller.properties")


def test_an_even_number_of_voters_is_a_warning() -> None:
    directory = UUID("7f3f3f3f-0000-4000-8000-000000000001")
    found = only(find_quorum(facts(*[voter(each, directory=directory) for each in (1, 2, 3, 4)], leader=4)))
    assert found.reason == "The quorum has 4 voters, an even number: it survives 1 failure, as 3 voters do."
    # Not the leader.
    assert line(found) == "crabka quorum remove --controller-id 3 --directory-id fz8_PwAAQACAAAAAAAAAAQ"
    found = only(find_quorum(facts(voter(1), voter(2))))
    assert found.reason == "The quorum has 2 voters, an even number: it survives 0 failures, as one voter does."
    assert line(found) == "crabka quorum add --config controller.properties"


def test_a_broker_that_does_not_apply_the_metadata_is_a_warning() -> None:
    late = voter(9, caught_up_ms=NOW - 20_000, end=1)
    found = only(find_quorum(facts(voter(1), voter(2), voter(3), observers=(late,))))
    assert found.reason == "Broker 9 is 499 records behind the metadata: it acts on an old state."
    # Kafka lists observers for minutes after they are gone.
    gone = facts(voter(1), voter(2), voter(3), observers=(late,))._replace(active_brokers=[1, 2, 3])
    assert only(find_quorum(gone)).severity.value == "ok"


def test_a_quorum_without_leader_is_an_error() -> None:
    assert texts(find_quorum(facts(voter(1), voter(2), voter(3), leader=-1))) == [
        ("error", "The metadata quorum has no leader: topics and leaders cannot change.")
    ]


def test_a_quorum_that_cannot_be_described_names_its_dead_voters() -> None:
    probes = [
        VoterProbe("voter 1", None),
        VoterProbe("voter 2", "connection refused"),
        VoterProbe("voter 3", "no route"),
    ]
    found = only(find_quorum(QuorumFacts(None, "no answer in 10000 ms", probes)))
    assert found.reason == (
        "No active controller answers: no answer in 10000 ms. Unreachable from here: voter 2 (connection refused), "
        "voter 3 (no route)."
    )
    assert only(find_quorum(QuorumFacts(None, "no answer."))).reason == "No active controller answers: no answer."
