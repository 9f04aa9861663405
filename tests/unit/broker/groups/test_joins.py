"""Joins of static members."""

from __future__ import annotations

from crabka.broker.groups.membership import GroupState
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import CoreDriver

STATIC = {"a": {"instance_id": "i-a"}, "b": {"instance_id": "i-b"}}


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    core = CoreDriver()
    leader, other = core.stable("a", "b", **STATIC)
    instance = core.group.membership.members[other].instance_id
    answer = core.join("back", instance_id=instance)
    assert (answer.error_code, answer.member_id, answer.generation) == (ErrorCode.none, "new-back", 2)
    assert core.state() is GroupState.STABLE
    assert core.sync("s", "new-back", instance_id=instance).assignment == other.encode()
    assert core.heartbeat("old", other, instance_id=instance) is ErrorCode.fenced_instance_id
    assert {member.member_id for member in core.stored[-1].snapshot.members} == {leader, "new-back"}


def test_a_static_leader_that_comes_back_keeps_the_assignment() -> None:
    core = CoreDriver()
    leader, _ = core.stable("a", "b", **STATIC)
    instance = core.group.membership.members[leader].instance_id
    old = core.join("old client", instance_id=instance)
    assert (old.leader, old.members, old.skip_assignment) == (leader, (), False)
    new = core.join("new client", instance_id=instance, supports_skipping_assignment=True)
    assert (new.leader, len(new.members), new.skip_assignment) == ("new-new client", 2, True)


def test_a_static_member_whose_id_cannot_be_stored_keeps_the_old_one() -> None:
    core = CoreDriver()
    (member,) = core.stable("a", **STATIC)
    core.holds_stores = True
    core.join("back", instance_id="i-a")
    core.finish_stores(ErrorCode.not_coordinator)
    assert core.answers["back"].error_code is ErrorCode.not_coordinator
    assert core.heartbeat("h", member, instance_id="i-a") is ErrorCode.none


def test_a_waiting_request_of_a_replaced_static_member_is_fenced() -> None:
    core = CoreDriver()
    core.stable("a", "b", **STATIC)
    core.join("dynamic")
    first = core.group.membership.static_members["i-a"]
    core.join("waits", first, instance_id="i-a")
    core.join("back", instance_id="i-a")
    assert core.answers["waits"].error_code is ErrorCode.fenced_instance_id
