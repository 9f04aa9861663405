"""Tests of the arrangement of ACLs."""

from __future__ import annotations

from crabka.security.acl_index import AclIndex
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType

TOPIC, READ = ResourceType.TOPIC, Operation.READ


def acl(name: str, user: str, *, prefixed: bool = False, permission: Permission = Permission.ALLOW) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(TOPIC, name, pattern, user, "*", READ, permission)


def test_a_question_looks_at_no_more_entries_than_there_are_lengths_of_prefixes() -> None:
    index = AclIndex()
    for number in range(5_000):
        index.add(acl(f"p{number:05}", f"User:{number}", prefixed=True))
        index.add(acl(f"l{number}", f"User:{number}"))
    index.add(acl("p", "User:a", prefixed=True))
    of_topics = index._types[TOPIC]
    assert len(list(of_topics.entries("p00007-x"))) == 2
    assert of_topics.prefix_counts == {1: 1, 6: 5_000}
    assert index.decide("User:a", "10.0.0.1", READ, TOPIC, "p00007-x")
    assert len(list(index.grants_of_type("User:7", "10.0.0.1", TOPIC))) == 2


def test_nothing_is_left_of_removed_acls() -> None:
    index = AclIndex()
    acls = [
        acl("a", "User:a"),
        acl("a", "User:a", permission=Permission.DENY),
        acl("a", "User:b"),
        acl("a", "User:a", prefixed=True),
        acl("b", "User:a", prefixed=True),
    ]
    for each in acls:
        index.add(each)
    assert index.decide("User:a", "10.0.0.1", READ, TOPIC, "a") is False
    for each in acls:
        index.remove(each)
    of_topics = index._types[TOPIC]
    assert (of_topics.literal, of_topics.prefixed, of_topics.prefix_counts, of_topics.patterns) == ({}, {}, {}, {})
    assert index.decide("User:a", "10.0.0.1", READ, TOPIC, "a") is None


def test_a_permission_that_is_not_known_does_not_allow() -> None:
    index = AclIndex()
    index.add(acl("a", "User:a", permission=Permission.UNKNOWN))
    assert index.decide("User:a", "10.0.0.1", READ, TOPIC, "a") is False
