"""Members of the classic protocol in a consumer group."""

from __future__ import annotations

from typing import Any

from crabka.broker.groups.consumer.embedded import decode_assignment_untrusted
from crabka.broker.groups.consumer.messages import Downgraded
from crabka.broker.groups.messages import Heartbeat, JoinResult, Leave, MemberIdentity, Sync, SyncResult
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import ConsumerCore, classic_join, topic_id

T = topic_id(0)


def core() -> ConsumerCore:
    made = ConsumerCore()
    made.beat("modern", 0)
    return made


def join(made: ConsumerCore, reply: str, member_id: str = "old", **fields: Any) -> JoinResult:
    made.step(classic_join(reply, member_id, **fields))
    result: JoinResult = made.answers[reply]
    return result


def sync(made: ConsumerCore, reply: str, generation: int) -> SyncResult:
    made.step(Sync(reply=reply, member_id="old", generation=generation, assignments={}))
    result: SyncResult = made.answers[reply]
    return result


def heartbeat(made: ConsumerCore, reply: str, generation: int, member_id: str = "old") -> ErrorCode:
    made.step(Heartbeat(reply=reply, member_id=member_id, generation=generation))
    result: ErrorCode = made.answers[reply]
    return result


def test_a_classic_member_gets_its_part_step_by_step() -> None:
    made = core()
    reported = join(made, "1", "")
    assert (reported.error_code, reported.member_id) == (ErrorCode.member_id_required, "new-1")
    first = join(made, "2")
    assert (first.error_code, first.generation, first.protocol, first.leader) == (ErrorCode.none, 3, "cooperative", "")
    assert decode_assignment_untrusted(sync(made, "3", 3).assignment, made.catalog) == {}
    assert heartbeat(made, "4", 3) is ErrorCode.none
    half = {T: frozenset({0, 1})}
    made.beat("modern", 2, owned={T: frozenset(range(4))})
    made.beat("modern", 2, owned=half)
    assert heartbeat(made, "5", 3) is ErrorCode.rebalance_in_progress
    assert join(made, "6").generation == 3
    assert decode_assignment_untrusted(sync(made, "7", 3).assignment, made.catalog) == {T: {2, 3}}
    assert heartbeat(made, "8", 3) is ErrorCode.none


def test_requests_that_do_not_fit_are_refused() -> None:
    made = core()
    join(made, "1")
    assert heartbeat(made, "2", 99) is ErrorCode.illegal_generation
    assert heartbeat(made, "3", 3, "who") is ErrorCode.unknown_member_id
    assert heartbeat(made, "4", 2, "modern") is ErrorCode.unknown_member_id
    assert join(made, "5", "x", protocol_type="connect").error_code is ErrorCode.inconsistent_group_protocol
    assert join(made, "6", "x", protocols=(("other", b""),)).error_code is ErrorCode.inconsistent_group_protocol
    assert join(made, "7", "x", protocols=(("cooperative", b""),)).error_code is ErrorCode.inconsistent_group_protocol


def test_a_new_epoch_sends_members_to_join_again_in_time() -> None:
    made = core()
    join(made, "1")
    made.beat("third", 0)
    assert sync(made, "2", 3).error_code is ErrorCode.rebalance_in_progress
    for number in range(12):
        made.pass_time(5_000)
        for name, epoch in (("modern", 2), ("third", 4)):
            made.post(name, epoch)
        if "old" in made.group.data.members:
            heartbeat(made, f"h{number}", 3)
    assert "old" not in made.group.data.members


def test_leaving_reports_every_member() -> None:
    made = core()
    join(made, "1", "", instance_id="i")
    made.step(Leave(reply="2", members=(MemberIdentity("", "i"), MemberIdentity("who"), MemberIdentity("modern"))))
    assert [code for _, code in made.answers["2"].members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    ]
    assert set(made.group.data.members) == {"modern"}


def test_the_last_consumer_that_leaves_makes_the_group_classic() -> None:
    made = core()
    join(made, "1")
    made.beat("modern", -1)
    (downgraded,) = made.others
    assert isinstance(downgraded, Downgraded)
    assert downgraded.rebalances
    assert made.group.is_dead
    group = downgraded.membership
    assert (group.state.value, group.protocol, list(group.members)) == ("Stable", "cooperative", ["old"])
    # It was to have two partitions, which were not free yet.
    assert decode_assignment_untrusted(group.members["old"].assignment, made.catalog) == {}


def test_a_static_consumer_that_comes_back_as_classic_makes_the_group_classic() -> None:
    made = ConsumerCore()
    made.beat("modern", 0, instance_id="i")
    assert join(made, "1", "", instance_id="i").error_code is ErrorCode.none
    (downgraded,) = made.others
    assert isinstance(downgraded, Downgraded)
    assert not downgraded.rebalances
    assert list(downgraded.membership.members) == ["new-1"]
