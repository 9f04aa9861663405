"""Access control lists: their values as Kafka numbers them, one ACL, and filters that select ACLs (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeVar

WILDCARD: Final = "*"
# The only resource of its type.
CLUSTER_NAME: Final = "kafka-cluster"


# The hash of Enum runs Python code, and these codes are part of the key of every remembered decision: so each class
# takes that of int.


class ResourceType(IntEnum):
    """What is protected."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL is compared with the name of a resource; ANY and MATCH only stand in filters."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a client wants to do with a resource."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What an ACL does to the operations that it names."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


C = TypeVar("C", ResourceType, PatternType, Operation, Permission)


def code_of(kind: type[C], code: int) -> C:
    """Return a code of the wire; one that this release does not know is UNKNOWN."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


# What each type of resource can be asked for: the operations that answers list as authorized (KIP-430).
SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


class Acl(NamedTuple):
    """One access control entry with the pattern of the resources it is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        resource = f"{self.resource_type.name} {self.pattern_type.name} {self.name!r}"
        return f"{self.permission.name} {self.operation.name} on {resource} for {self.principal} from {self.host}"


class AclFilter(NamedTuple):
    """Selects ACLs; None and ANY select all. MATCH selects the ACLs that apply to a resource of that name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the ACL is selected."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.LITERAL:
            return acl.name in (self.name, WILDCARD)
        return acl.pattern_type is PatternType.PREFIXED and self.name.startswith(acl.name)


def host_address(peer_host: str) -> str:
    """Return an address as Java writes it, which is what the hosts of ACLs are compared with."""
    text, percent, scope = peer_host.partition("%")
    try:
        address = ip_address(text)
    except ValueError:
        return peer_host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = address.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + scope
