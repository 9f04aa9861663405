"""All ACLs of a cluster, arranged for decisions.

A question touches one entry for the exact name, one for `*`, and one for each length that some prefix has; below an
entry the principal and the host are looked up. So the cost does not grow with the number of ACLs. The operations of
equal patterns, principals and hosts are two bit sets, because a decision needs no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from crabka.security.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType

# Bits of the operations of an ALLOW that permit an operation, by the operation.
_ALLOWED_BY: Final = [1 << operation | 1 << Operation.ALL for operation in Operation]
for _implying in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
    _ALLOWED_BY[Operation.DESCRIBE] |= 1 << _implying
_ALLOWED_BY[Operation.DESCRIBE_CONFIGS] |= 1 << Operation.ALTER_CONFIGS
# A DENY of an operation implies nothing about others.
_DENIED_BY: Final = [1 << operation | 1 << Operation.ALL for operation in Operation]

ANY_USER: Final = "User:*"


class Operations:
    """What the ACLs of one pattern, principal and host allow and deny: bits by operation."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = 0
        self.denied = 0


class Pattern(NamedTuple):
    """The names of resources that an entry of the index is about."""

    pattern_type: PatternType
    name: str


# By principal, then by host.
_Entry = dict[str, dict[str, Operations]]


class _OfType:
    """The ACLs about resources of one type."""

    __slots__ = ("literal", "patterns", "prefix_counts", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Entry] = {}
        self.prefixed: dict[str, _Entry] = {}
        # Number of entries in `prefixed` by the length of their name.
        self.prefix_counts: dict[int, int] = {}
        # What ACLs of a principal name, for questions about the type as a whole.
        self.patterns: dict[str, set[Pattern]] = {}

    def entries(self, name: str) -> Iterator[tuple[Pattern, _Entry]]:
        """Yield what applies to a resource: its own name, its prefixes from the longest on, and the wildcard."""
        own = self.literal.get(name)
        if own is not None:
            yield Pattern(PatternType.LITERAL, name), own
        if self.prefix_counts:
            length = len(name)
            for prefix_length in sorted(self.prefix_counts, reverse=True):
                if prefix_length <= length:
                    prefix = name[:prefix_length]
                    entry = self.prefixed.get(prefix)
                    if entry is not None:
                        yield Pattern(PatternType.PREFIXED, prefix), entry
        # As in Kafka, whose search takes `*` for a mere prefix of such a name.
        if not name.startswith(WILDCARD):
            every = self.literal.get(WILDCARD)
            if every is not None:
                yield Pattern(PatternType.LITERAL, WILDCARD), every

    def by_name(self, pattern_type: PatternType) -> dict[str, _Entry]:
        return self.prefixed if pattern_type is PatternType.PREFIXED else self.literal

    def add(self, acl: Acl) -> None:
        entries = self.by_name(acl.pattern_type)
        entry = entries.get(acl.name)
        if entry is None:
            entry = entries[acl.name] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                self.prefix_counts[len(acl.name)] = self.prefix_counts.get(len(acl.name), 0) + 1
        hosts = entry.get(acl.principal)
        if hosts is None:
            hosts = entry[acl.principal] = {}
            self.patterns.setdefault(acl.principal, set()).add(Pattern(acl.pattern_type, acl.name))
        operations = hosts.setdefault(acl.host, Operations())
        if acl.permission is Permission.ALLOW:
            operations.allowed |= 1 << acl.operation
        else:
            operations.denied |= 1 << acl.operation

    def remove(self, acl: Acl) -> None:
        entries = self.by_name(acl.pattern_type)
        entry = entries[acl.name]
        hosts = entry[acl.principal]
        operations = hosts[acl.host]
        if acl.permission is Permission.ALLOW:
            operations.allowed &= ~(1 << acl.operation)
        else:
            operations.denied &= ~(1 << acl.operation)
        if operations.allowed or operations.denied:
            return
        del hosts[acl.host]
        if not hosts:
            del entry[acl.principal]
            self._forget(acl.principal, Pattern(acl.pattern_type, acl.name))
        if entry:
            return
        del entries[acl.name]
        if acl.pattern_type is PatternType.PREFIXED:
            self.prefix_counts[len(acl.name)] -= 1
            if not self.prefix_counts[len(acl.name)]:
                del self.prefix_counts[len(acl.name)]

    def _forget(self, principal: str, pattern: Pattern) -> None:
        self.patterns[principal].discard(pattern)
        if not self.patterns[principal]:
            del self.patterns[principal]


class Grant(NamedTuple):
    """What the principals and hosts of a requester may and may not do by one entry, as bits of operations."""

    pattern: Pattern
    principal: str
    host: str
    allowed: int
    denied: int


class AclIndex:
    """ACLs by type of resource, name, principal and host. The same ACL may be added once."""

    def __init__(self) -> None:
        self._types: dict[ResourceType, _OfType] = {}

    def add(self, acl: Acl) -> None:
        """Add an ACL."""
        self._types.setdefault(acl.resource_type, _OfType()).add(acl)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that was added."""
        self._types[acl.resource_type].remove(acl)

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool | None:
        """Return whether ACLs allow an operation; None if no ACL at all is about the resource."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return None
        allowing, denying = _ALLOWED_BY[operation], _DENIED_BY[operation]
        is_named = allowed = False
        for _, entry in of_type.entries(name):
            is_named = True
            for user in (principal, ANY_USER):
                hosts = entry.get(user)
                if hosts is None:
                    continue
                for address in (host, WILDCARD):
                    operations = hosts.get(address)
                    if operations is not None:
                        if operations.denied & denying:
                            return False
                        allowed = allowed or bool(operations.allowed & allowing)
        return allowed if is_named else None

    def deciding(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Acl | None:
        """Return the ACL by which `decide` decides: a DENY if there is one, else an ALLOW; None if there is none."""
        of_type = self._types.get(resource_type)
        grants = [] if of_type is None else list(self._grants(of_type.entries(name), principal, host))
        for permission, wanted in (
            (Permission.DENY, _DENIED_BY[operation]),
            (Permission.ALLOW, _ALLOWED_BY[operation]),
        ):
            for grant in grants:
                found = wanted & (grant.denied if permission is Permission.DENY else grant.allowed)
                if found:
                    exact = operation if found >> operation & 1 else Operation(found.bit_length() - 1)
                    kind, pattern_name = grant.pattern
                    return Acl(resource_type, pattern_name, kind, grant.principal, grant.host, exact, permission)
        return None

    def grants_of_type(self, principal: str, host: str, resource_type: ResourceType) -> Iterator[Grant]:
        """Yield what all ACLs about a type of resource grant to a requester."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return
        patterns = of_type.patterns.get(principal, set()) | of_type.patterns.get(ANY_USER, set())
        entries = ((each, of_type.by_name(each.pattern_type)[each.name]) for each in patterns)
        yield from self._grants(entries, principal, host)

    def _grants(self, entries: Iterator[tuple[Pattern, _Entry]], principal: str, host: str) -> Iterator[Grant]:
        users = (principal,) if principal == ANY_USER else (principal, ANY_USER)
        addresses = (host,) if host == WILDCARD else (host, WILDCARD)
        for pattern, entry in entries:
            for user in users:
                hosts = entry.get(user)
                if hosts is None:
                    continue
                for address in addresses:
                    operations = hosts.get(address)
                    if operations is not None:
                        yield Grant(pattern, user, address, operations.allowed, operations.denied)
