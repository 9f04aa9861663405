"""Leaders that ask for another ISR."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.controller.decisions.alter_partition import AlteredPartition, IsrMember, IsrProposal, alter_partitions
from crabka.controller.decisions.control_view import DEFAULT_RULES
from crabka.controller.decisions.partition_change import RECOVERED, RECOVERING
from crabka.errors import OperationError
from crabka.ids import DIRECTORY_LOST
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import BrokerRegistrationChangeRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import ELR_ON, applied, cluster, partition_of, topic_id_of, with_partitions

T = topic_id_of("t")


def proposal(*isr: int | tuple[int, int], **more: Any) -> IsrProposal:
    members = [IsrMember(each) if isinstance(each, int) else IsrMember(*each) for each in isr]
    given: dict[str, Any] = {"topic_id": T, "partition_id": 0, "leader_epoch": 5, "partition_epoch": 10, **more}
    return IsrProposal(isr=members, **given)


def ask(
    image: MetadataImage, *proposals: IsrProposal, broker_id: int = 1
) -> tuple[MetadataImage, list[AlteredPartition]]:
    outcome = alter_partitions(image, DEFAULT_RULES, proposals, broker_id=broker_id, broker_epoch=broker_id)
    return applied(image, outcome.records), outcome.result


def codes(image: MetadataImage, *proposals: IsrProposal, broker_id: int = 1) -> list[ErrorCode]:
    return [each.error_code for each in ask(image, *proposals, broker_id=broker_id)[1]]


def three(**partition: Any) -> MetadataImage:
    return with_partitions(cluster(1, 2, 3, features=ELR_ON), "t", {"replicas": (1, 2, 3), **partition})


def test_an_isr_shrinks_and_grows_again() -> None:
    image, (answer,) = ask(three(), proposal(1, 2))
    assert answer.error_code is ErrorCode.none
    assert answer.partition == partition_of(image)
    assert (partition_of(image).isr, partition_of(image).leader_epoch, partition_of(image).partition_epoch) == (
        (1, 2),
        5,
        11,
    )
    image, (answer,) = ask(image, proposal((1, 1), (2, 2), (3, 3), partition_epoch=11))
    assert answer.partition is not None
    assert answer.partition.isr == (1, 2, 3)


def test_the_present_isr_is_confirmed_without_a_change() -> None:
    image, (answer,) = ask(three(), proposal(1, 2, 3))
    assert (answer.error_code, image.offset) == (ErrorCode.none, three().offset)
    assert answer.partition == partition_of(three())


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (proposal(1, leader_epoch=6), ErrorCode.not_controller),
        (proposal(1, partition_epoch=11), ErrorCode.not_controller),
        (proposal(1, leader_epoch=4), ErrorCode.fenced_leader_epoch),
        (proposal(1, partition_epoch=9), ErrorCode.invalid_update_version),
        (proposal(1, topic_id=uuid.UUID(int=3)), ErrorCode.unknown_topic_id),
        (proposal(1, partition_id=1), ErrorCode.unknown_topic_or_partition),
        (proposal(2, 3), ErrorCode.invalid_request),
        (proposal(), ErrorCode.invalid_request),
        (proposal(1, 9), ErrorCode.invalid_request),
        (proposal(1, 2, 2), ErrorCode.invalid_request),
        (proposal(1, leader_recovery_state=RECOVERING), ErrorCode.invalid_request),
        (proposal(1, leader_recovery_state=7), ErrorCode.invalid_request),
        (proposal(1, (2, 99)), ErrorCode.ineligible_replica),
    ],
)
def test_refused_proposals(wanted: IsrProposal, code: ErrorCode) -> None:
    image, (answer,) = ask(three(isr=(1,)), wanted)
    assert (answer.error_code, answer.partition, image.offset) == (code, None, three().offset)


def test_only_the_leader_may_ask() -> None:
    assert codes(three(), proposal(1, 2), broker_id=2) == [ErrorCode.invalid_request]


def test_a_stale_incarnation_of_the_leader_may_not_ask() -> None:
    with pytest.raises(OperationError) as caught:
        alter_partitions(three(), DEFAULT_RULES, [proposal(1)], broker_id=1, broker_epoch=7)
    assert caught.value.error_code is ErrorCode.stale_broker_epoch


@pytest.mark.parametrize("state", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_no_fenced_or_stopping_replica_joins(state: dict[str, Any]) -> None:
    image = applied(three(isr=(1,)), [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, **state)])
    assert codes(image, proposal(1, 2)) == [ErrorCode.ineligible_replica]
    assert codes(image, proposal(1, 3)) == [ErrorCode.none]


def test_a_replica_that_is_not_registered_does_not_join() -> None:
    image = with_partitions(cluster(1), "t", {"replicas": (1, 2), "isr": (1,)})
    assert codes(image, proposal(1, 2)) == [ErrorCode.ineligible_replica]


def test_a_recovering_leader_is_alone_until_it_has_recovered() -> None:
    image = three(isr=(1,), leader_recovery_state=RECOVERING)
    assert codes(image, proposal(1, 2, leader_recovery_state=RECOVERING)) == [ErrorCode.invalid_request]
    assert codes(image, proposal(1, leader_recovery_state=RECOVERING)) == [ErrorCode.none]
    image, (answer,) = ask(image, proposal(1, leader_recovery_state=RECOVERED))
    assert answer.partition is not None
    assert answer.partition.leader_recovery_state == RECOVERED
    assert codes(image, proposal(1, 2, partition_epoch=11)) == [ErrorCode.none]


def test_an_isr_that_completes_a_reassignment_may_cost_the_leadership() -> None:
    image = with_partitions(
        cluster(1, 2), "t", {"replicas": (2, 1), "isr": (1,), "adding_replicas": (2,), "removing_replicas": (1,)}
    )
    image, (answer,) = ask(image, proposal(1, 2))
    assert (answer.error_code, answer.partition) == (ErrorCode.new_leader_elected, None)
    done = partition_of(image)
    assert (done.replicas, done.isr, done.leader, done.leader_epoch, done.adding) == ((2,), (2,), 2, 6, ())


def test_a_leader_that_stays_learns_its_new_epoch() -> None:
    image = with_partitions(
        cluster(1, 2, 3),
        "t",
        {"replicas": (1, 3, 2), "isr": (1, 2), "adding_replicas": (3,), "removing_replicas": (2,)},
    )
    _, (answer,) = ask(image, proposal(1, 2, 3))
    assert answer.error_code is ErrorCode.none
    assert answer.partition is not None
    assert (answer.partition.leader, answer.partition.leader_epoch, answer.partition.isr) == (1, 6, (1, 3))


def test_a_partition_named_twice_is_changed_once() -> None:
    assert codes(three(), proposal(1, 2), proposal(1, 3)) == [ErrorCode.none, ErrorCode.invalid_update_version]


def test_a_replica_that_its_broker_reports_as_lost_does_not_join() -> None:
    directories = (uuid.UUID(int=1001), DIRECTORY_LOST, uuid.UUID(int=1003))
    image = with_partitions(cluster(1, 2, 3), "t", {"replicas": (1, 2, 3), "isr": (1,), "directories": directories})
    assert codes(image, proposal(1, 2)) == [ErrorCode.ineligible_replica]
    assert codes(image, proposal(1, 3)) == [ErrorCode.none]


def test_a_lost_replica_that_is_eligible_joins_once_it_has_fetched() -> None:
    directories = (uuid.UUID(int=1001), DIRECTORY_LOST, uuid.UUID(int=1003))
    fields = {"replicas": (1, 2, 3), "isr": (1,), "eligible_leader_replicas": (2,), "directories": directories}
    assert codes(with_partitions(cluster(1, 2, 3), "t", fields), proposal(1, 2)) == [ErrorCode.none]
