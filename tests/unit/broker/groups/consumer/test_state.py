"""What records make of a group."""

from __future__ import annotations

from crabka.broker.groups.consumer.member import ClassicMetadata, ConsumerMember, CurrentAssignment, MemberMetadata
from crabka.broker.groups.consumer.records import (
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    PartitionMetadataRecord,
    PatternRecord,
    ResolvedPattern,
    TargetEpochRecord,
    TargetRecord,
)
from crabka.broker.groups.consumer.state import ConsumerGroupData
from tests.support.coordinators.consumer_groups import topic_id

T = topic_id(0)


def data() -> ConsumerGroupData:
    made = ConsumerGroupData()
    made.apply(
        MemberRecord("g", "m", MemberMetadata("i", topic_names=("t",), topic_regex="x.*", server_assignor="range"))
    )
    made.apply(GroupEpochRecord("g", 4, 9))
    made.apply(TargetRecord("g", "m", {T: frozenset({0, 1})}))
    made.apply(TargetEpochRecord("g", 4, 5))
    made.apply(CurrentRecord("g", "m", CurrentAssignment(4, 3, assigned={T: {0: 4}}, revoking={T: {1: 2}})))
    made.apply(PatternRecord("g", "x.*", ResolvedPattern(("xa",), 1, 1)))
    return made


def test_what_is_given_up_still_has_an_owner() -> None:
    made = data()
    assert not made.is_free(T, 0)
    assert not made.is_free(T, 1)
    made.apply(CurrentRecord("g", "m", CurrentAssignment(4, 4, assigned={T: {0: 4}})))
    assert made.is_free(T, 1)
    made.apply(CurrentRecord("g", "m", None))
    assert made.is_free(T, 0)


def test_topics_are_wanted_by_name_and_by_pattern() -> None:
    made = data()
    assert made.subscribed_topics == {"t", "xa"}
    made.apply(PatternRecord("g", "x.*", None))
    assert made.subscribed_topics == {"t"}


def test_tombstones_leave_nothing() -> None:
    made = data()
    made.apply(PartitionMetadataRecord("g", deleted=False))
    for record in list(made.tombstones("g")):
        assert not made.is_gone
        made.apply(record)
    assert made.is_gone
    assert not made.owners
    assert not made.static_members


def test_a_copy_is_not_changed_by_records() -> None:
    made = data()
    kept = made.copy()
    made.apply(MemberRecord("g", "m", None))
    assert kept.members
    assert kept.static_member("i") == kept.members["m"]
    assert made.static_member("i") is None


def test_the_assignor_that_most_ask_for_is_preferred() -> None:
    made = data()
    assert made.preferred_assignor() == "range"
    for name in "ab":
        made.apply(MemberRecord("g", name, MemberMetadata(server_assignor="uniform")))
    assert made.preferred_assignor() == "uniform"
    assert ConsumerGroupData().preferred_assignor() is None


def test_classic_members_need_a_protocol_in_common() -> None:
    made = data()
    assert made.supports_classic_protocols({"range"})
    assert not made.supports_classic_protocols(set())
    made.apply(MemberRecord("g", "c", MemberMetadata(classic=ClassicMetadata(1, (("sticky", b""),)))))
    assert made.classic_member_count == 1
    assert not made.supports_classic_protocols({"range"})


def test_a_member_waits_for_others_while_they_have_what_it_is_to_have() -> None:
    made = data()
    made.apply(TargetRecord("g", "n", {T: frozenset({0})}))
    assert made.is_waiting_for_others(ConsumerMember("n"))
    made.apply(CurrentRecord("g", "m", CurrentAssignment(4)))
    assert not made.is_waiting_for_others(ConsumerMember("n"))
