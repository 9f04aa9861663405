"""Tests of the values of ACLs."""

from __future__ import annotations

import pytest

from crabka.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, code_of, host_address

LITERAL = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
PREFIXED = LITERAL._replace(name="ord", pattern_type=PatternType.PREFIXED)
EVERY = LITERAL._replace(name="*")


def test_an_empty_filter_selects_everything() -> None:
    assert all(AclFilter().matches(acl) for acl in (LITERAL, PREFIXED, EVERY))


@pytest.mark.parametrize(
    ("pattern", "name", "selected"),
    [
        (PatternType.LITERAL, "orders", [LITERAL]),
        (PatternType.LITERAL, "*", [EVERY]),
        (PatternType.PREFIXED, "ord", [PREFIXED]),
        (PatternType.PREFIXED, "orders", []),
        (PatternType.ANY, "ord", [PREFIXED]),
        (PatternType.MATCH, "orders", [LITERAL, PREFIXED, EVERY]),
        (PatternType.MATCH, "ordinary", [PREFIXED, EVERY]),
        (PatternType.MATCH, "x", [EVERY]),
        (PatternType.MATCH, None, [LITERAL, PREFIXED, EVERY]),
        (PatternType.LITERAL, None, [LITERAL, EVERY]),
    ],
)
def test_filters_of_names(pattern: PatternType, name: str | None, selected: list[Acl]) -> None:
    wanted = AclFilter(name=name, pattern_type=pattern)
    assert [acl for acl in (LITERAL, PREFIXED, EVERY) if wanted.matches(acl)] == selected


@pytest.mark.parametrize(
    "other",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(principal="User:b"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=Operation.ALL),
        AclFilter(permission=Permission.DENY),
    ],
)
def test_filters_of_other_fields_are_exact(other: AclFilter) -> None:
    assert not other.matches(LITERAL)


def test_codes_that_are_not_known_are_unknown() -> None:
    assert code_of(ResourceType, 99) is ResourceType.UNKNOWN
    assert code_of(PatternType, -1) is PatternType.UNKNOWN
    assert code_of(Operation, 99) is Operation.UNKNOWN
    assert code_of(Permission, 3) is Permission.ALLOW


@pytest.mark.parametrize(
    ("peer", "java"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::00ab", "2001:db8:0:0:0:0:0:ab"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("unknown", "unknown"),
    ],
)
def test_addresses_are_written_as_java_does(peer: str, java: str) -> None:
    assert host_address(peer) == java
