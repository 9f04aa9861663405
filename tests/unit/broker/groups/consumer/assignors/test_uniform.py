"""The assignor `uniform` on groups that can be checked by eye."""

from __future__ import annotations

from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, SpecMember
from crabka.broker.groups.consumer.assignors.uniform import assign
from tests.support.coordinators.consumer_groups import topic_id

T, U = topic_id(0), topic_id(1)


def test_a_new_member_takes_what_others_have_too_much_of() -> None:
    members = {"a": SpecMember(None, (T,), {T: frozenset(range(4))}), "b": SpecMember(None, (T,), {})}
    assert assign(AssignmentSpec(members, {T: 4})) == {"a": {T: frozenset({0, 1})}, "b": {T: frozenset({2, 3})}}


def test_what_a_member_left_goes_to_the_others() -> None:
    members = {"a": SpecMember(None, (T,), {T: frozenset({0, 1})})}
    assert assign(AssignmentSpec(members, {T: 4})) == {"a": {T: frozenset(range(4))}}


def test_topics_without_subscribers_are_given_up() -> None:
    members = {"a": SpecMember(None, (U,), {T: frozenset({0})})}
    assert assign(AssignmentSpec(members, {T: 1, U: 1})) == {"a": {U: frozenset({0})}}


def test_members_that_can_take_more_topics_fill_the_gaps() -> None:
    members = {"a": SpecMember(None, (T, U), {}), "b": SpecMember(None, (T,), {})}
    assert assign(AssignmentSpec(members, {T: 3, U: 1})) == {
        "a": {T: frozenset({1}), U: frozenset({0})},
        "b": {T: frozenset({0, 2})},
    }


def test_without_members_nothing_is_assigned() -> None:
    assert assign(AssignmentSpec({}, {})) == {}
