"""Findings about replicas."""

from __future__ import annotations

from uuid import UUID

from crabka.cli.doctor.checks.partitions import PartitionFacts, find_partitions
from crabka.clients.cluster.metadata import PartitionMetadata, TopicMetadata
from crabka.protocol.error_codes import ErrorCode
from tests.support.doctor.findings import line, only, texts

ALL = (1, 2, 3)
START = "crabka serve --config server.properties"


def partition(
    index: int, *, leader: int = 1, replicas: tuple[int, ...] = ALL, isr: tuple[int, ...] = ALL
) -> PartitionMetadata:
    return PartitionMetadata(index, leader, 0, replicas, isr, (), ErrorCode.none)


def facts(*partitions: PartitionMetadata, fenced: tuple[int, ...] = (), minimum: int = 1) -> PartitionFacts:
    topic = TopicMetadata("t", UUID(int=1), False, {each.partition: each for each in partitions})
    return PartitionFacts([topic], fenced, {"t": minimum}, is_crabka=True)


def test_partitions_in_sync_are_fine() -> None:
    assert texts(find_partitions(facts(partition(0), partition(1)))) == [("ok", "2 partitions, all replicas in sync")]


def test_partitions_without_leader_are_an_error() -> None:
    found = only(find_partitions(facts(partition(0), partition(1, leader=-1, isr=(3,)))))
    assert found.reason == ("1 partition has no leader and cannot be read or written (t-1): broker 3 must return.")
    assert (found.severity.value, line(found), found.places) == ("error", START, ("t-1",))
    found = only(find_partitions(facts(*(partition(each, leader=-1, isr=()) for each in range(5)))))
    assert found.reason == (
        "5 partitions have no leader and cannot be read or written (t-0, t-1, t-2 and 2 more): brokers 1, 2, 3 must "
        "return."
    )
    assert len(found.places) == 5


def test_partitions_that_refuse_writes_are_an_error() -> None:
    assert texts(find_partitions(facts(partition(0, isr=(1,)), minimum=2))) == [
        (
            "error",
            (
                "1 partition refuses writes with acks=all (t-0): t-0 has 1 of the 2 replicas in sync that "
                "min.insync.replicas requires; out of sync: brokers 2, 3."
            ),
        ),
        ("warning", "1 of 1 partition has replicas out of sync (t-0); by broker: 2 (1), 3 (1)."),
    ]


def test_a_topic_needs_no_more_replicas_in_sync_than_it_has() -> None:
    alone = partition(0, replicas=(1,), isr=(1,))
    assert texts(find_partitions(facts(alone, minimum=2))) == [("ok", "1 partition, all replicas in sync")]
    lacking = partition(0, replicas=(1, 2), isr=(1,))
    assert [severity for severity, _ in texts(find_partitions(facts(lacking, minimum=3)))] == ["error", "warning"]


def test_replicas_out_of_sync_are_a_warning() -> None:
    lacking = [partition(0, isr=(1, 2)), partition(1, isr=(1, 2)), partition(2)]
    found = only(find_partitions(facts(*lacking)))
    assert found.reason == "2 of 3 partitions have replicas out of sync (t-0, t-1); by broker: 3 (2)."
    assert (found.severity.value, line(found)) == ("warning", "crabka brokers list")


def test_a_fenced_broker_is_to_be_started() -> None:
    stopped, lacking = find_partitions(facts(partition(0, isr=(1, 2)), fenced=(3,))).findings
    assert stopped.reason == "Broker 3 is registered but does not serve; it has 1 replica."
    assert line(stopped) == line(lacking) == START


def test_a_fenced_broker_without_replicas_may_be_forgotten() -> None:
    found = only(find_partitions(facts(partition(0), fenced=(4,))))
    assert (found.severity.value, line(found)) == ("hint", "crabka brokers unregister 4")


def test_other_leaders_than_the_preferred_ones_are_a_hint() -> None:
    found = only(find_partitions(facts(partition(0, leader=2), partition(1))))
    assert found.reason == "1 of 2 partitions is not led by the preferred replica (t-0)."
    assert (found.severity.value, line(found)) == ("hint", "crabka partitions elect-leaders")
    # One that is out of sync cannot lead.
    lacking = find_partitions(facts(partition(0, leader=2, isr=(2, 3))))
    assert [severity for severity, _ in texts(lacking)] == ["warning"]
