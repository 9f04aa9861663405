"""The assignor `range` on groups that can be checked by eye."""

from __future__ import annotations

from crabka.broker.groups.consumer.assignors.range import assign
from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, SpecMember
from tests.support.coordinators.consumer_groups import topic_id

T, U = topic_id(0), topic_id(1)


def test_runs_are_given_in_the_order_of_the_ids() -> None:
    members = {name: SpecMember(None, (T, U), {}) for name in ("b", "a")}
    both = AssignmentSpec(members, {T: 3, U: 3})
    assert assign(both) == {
        "a": {T: frozenset({0, 1}), U: frozenset({0, 1})},
        "b": {T: frozenset({2}), U: frozenset({2})},
    }


def test_static_members_come_first_by_their_instance() -> None:
    members = {"a": SpecMember(None, (T,), {}), "x": SpecMember("1", (T,), {}), "w": SpecMember("2", (T,), {})}
    assert assign(AssignmentSpec(members, {T: 3})) == {
        "x": {T: frozenset({0})},
        "w": {T: frozenset({1})},
        "a": {T: frozenset({2})},
    }


def test_more_members_than_partitions_leave_some_with_nothing() -> None:
    members = {name: SpecMember(None, (T,), {}) for name in "ab"}
    assert assign(AssignmentSpec(members, {T: 1})) == {"a": {T: frozenset({0})}, "b": {}}
