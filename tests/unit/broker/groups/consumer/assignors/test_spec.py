"""What an assignor is given."""

from __future__ import annotations

from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, SpecMember
from tests.support.coordinators.consumer_groups import topic_id


def test_a_group_is_homogeneous_if_all_want_the_same() -> None:
    same, other = SpecMember(None, (topic_id(0),), {}), SpecMember(None, (), {})
    assert AssignmentSpec({"a": same, "b": same}, {}).is_homogeneous
    assert not AssignmentSpec({"a": same, "b": other}, {}).is_homogeneous
    assert AssignmentSpec({}, {}).is_homogeneous
