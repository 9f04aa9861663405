"""Groups that move between the protocols."""

from __future__ import annotations

import dataclasses

import pytest

from crabka.broker.groups.consumer.assignors.spec import Partitions
from crabka.broker.groups.consumer.embedded import encode_assignment
from crabka.broker.groups.consumer.messages import ConsumerHeartbeat, Downgraded
from crabka.broker.groups.consumer.migration import check_upgrade, downgraded_group, has_settled, upgrade_records
from crabka.broker.groups.consumer.records import TargetRecord
from crabka.broker.groups.consumer.settings import ConsumerSettings, MigrationPolicy
from crabka.broker.groups.consumer.state import ConsumerGroupData
from crabka.broker.groups.member import ClassicMember
from crabka.broker.groups.membership import ClassicSettings, GroupState, Membership
from crabka.broker.groups.records import group_key
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import ConsumerCore, catalog_of, topic_id
from tests.support.coordinators.members import subscription

T = topic_id(0)
ALL = {T: frozenset(range(4))}


def classic(metadata: bytes = subscription("t")) -> Membership:
    group = Membership("g", ClassicSettings(), 0)
    member = ClassicMember("old", None, client_id="c", client_host="/h", protocols=(("range", metadata),))
    member.assignment = encode_assignment(ALL, catalog_of(t=4), 1)
    group.add(member, "consumer")
    group.settle("range", GroupState.STABLE)
    group.generation = 7
    return group


def test_members_keep_what_they_have_and_come_back_with_it() -> None:
    data, catalog = ConsumerGroupData(), catalog_of(t=4)
    for record in upgrade_records(classic(), catalog):
        data.apply(record)
    member = data.members["old"]
    assert (data.epoch, data.assignment_epoch, member.current.epoch) == (7, 7, 7)
    assert member.uses_classic_protocol
    assert data.target == {"old": ALL}
    assert not data.is_free(T, 0)
    back = downgraded_group("g", data, (), catalog, 5)
    assert back.snapshot(back.assignments()) == classic().snapshot(classic().assignments())._replace(
        state_timestamp_ms=5
    )


def test_an_upgrade_is_stored_with_the_first_report() -> None:
    core = ConsumerCore()
    core.group.upgrade(classic())
    report = ConsumerHeartbeat(
        reply=1, member_id="m", member_epoch=0, topic_names=("t",), rebalance_timeout_ms=1, owned={}
    )
    core.step(report)
    assert core.log[0] == (group_key("g"), None)
    assert core.group.data.epoch == 8
    assert set(core.group.data.members) == {"old", "m"}
    assert core.answers[1].assignment == {}


def test_a_downgrade_forgets_nothing_that_a_member_has_not_given_up() -> None:
    core = ConsumerCore()
    core.group.upgrade(classic())
    core.step(
        ConsumerHeartbeat(
            reply="first", member_id="m", member_epoch=0, topic_names=("t",), rebalance_timeout_ms=1, owned={}
        )
    )
    assert core.group.data.target_of("old") != ALL
    core.beat("m", -1)
    (downgraded,) = core.others
    assert isinstance(downgraded, Downgraded)
    assert downgraded.membership.members["old"].assignment == encode_assignment(ALL, catalog_of(t=4), 1)


@pytest.mark.parametrize(("target", "settled"), [(ALL, True), ({T: frozenset({0})}, False)])
def test_a_group_has_settled_when_all_have_what_the_target_gives_them(target: Partitions, settled: bool) -> None:
    data = ConsumerGroupData()
    for record in upgrade_records(classic(), catalog_of(t=4)):
        data.apply(record)
    data.apply(TargetRecord("g", "old", target))
    assert has_settled(data, ()) is settled
    assert has_settled(data, {"old"})


def test_members_that_came_along_have_to_report() -> None:
    core = ConsumerCore()
    old = classic()
    old.members["old"].session_timeout_ms = 6_000
    core.group.upgrade(old)
    core.step(
        ConsumerHeartbeat(reply=1, member_id="m", member_epoch=0, topic_names=("t",), rebalance_timeout_ms=1, owned={})
    )
    core.pass_time(6_001)
    assert set(core.group.data.members) == {"m"}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_policy_may_forbid_the_upgrade(policy: MigrationPolicy) -> None:
    with pytest.raises(OperationError) as refused:
        check_upgrade(classic(), ConsumerSettings(migration_policy=policy))
    assert refused.value.error_code is ErrorCode.group_id_not_found
    check_upgrade(classic(), ConsumerSettings())


def test_groups_that_cannot_be_read_or_are_too_large_stay_classic() -> None:
    with pytest.raises(OperationError):
        upgrade_records(classic(b""), catalog_of(t=4))
    with pytest.raises(OperationError):
        check_upgrade(classic(), dataclasses.replace(ConsumerSettings(), max_size=0))
    connect = classic()
    connect.protocol_type = "connect"
    with pytest.raises(OperationError):
        check_upgrade(connect, ConsumerSettings())
