"""Which ACLs options ask for: those of named operations, and the bundles for producers and consumers (kafka-acls)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from crabka.cli.acls.options import Resource, word_of
from crabka.errors import ConfigError
from crabka.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType

_PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


class Bundle(NamedTuple):
    """What a client that does certain things needs."""

    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    @property
    def is_asked(self) -> bool:
        """Whether any of them is wanted."""
        return self.producer or self.consumer or self.idempotent


class Grantees(NamedTuple):
    """Principals that are allowed or denied something, and the addresses that this is about."""

    allowed: Sequence[str]
    denied: Sequence[str]
    hosts: Sequence[str]


def wanted_acls(
    resources: Sequence[Resource],
    operations: Sequence[Operation],
    bundle: Bundle,
    grantees: Grantees,
    *,
    prefixed: bool,
) -> list[Acl]:
    """Return the ACLs that options ask for. Raises ConfigError."""
    if not (grantees.allowed or grantees.denied):
        raise ConfigError("name users: --allow User:NAME or --deny User:NAME")
    if bundle.is_asked and (operations or grantees.denied):
        raise ConfigError("--producer, --consumer and --idempotent take --allow alone: they name the operations")
    pairs = list(_bundled(resources, bundle) if bundle.is_asked else _named(resources, operations))
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    acls: dict[Acl, None] = {}
    for permission, principals in ((Permission.ALLOW, grantees.allowed), (Permission.DENY, grantees.denied)):
        for principal in principals:
            for (resource_type, name), operation in pairs:
                # There is one cluster, and what it is called begins no other name.
                kind = PatternType.LITERAL if resource_type is ResourceType.CLUSTER else pattern
                for host in grantees.hosts or ("*",):
                    acls[Acl(resource_type, name, kind, principal, host, operation, permission)] = None
    return list(acls)


def _named(resources: Sequence[Resource], operations: Sequence[Operation]) -> Iterator[tuple[Resource, Operation]]:
    if not resources:
        raise ConfigError("name resources: --topic, --group, --transactional-id, --cluster, …")
    if not operations:
        raise ConfigError("name operations, such as --operation Read, or take --producer or --consumer")
    for resource in resources:
        for operation in operations:
            yield resource, operation


def _bundled(resources: Sequence[Resource], bundle: Bundle) -> Iterator[tuple[Resource, Operation]]:
    kinds = {resource.resource_type for resource in resources}
    if (bundle.producer or bundle.consumer) and ResourceType.TOPIC not in kinds:
        raise ConfigError("name topics: --topic TOPIC")
    if bundle.consumer and ResourceType.GROUP not in kinds:
        raise ConfigError("name the groups of the consumer: --group GROUP")
    used: set[ResourceType] = set()
    for wanted, needed in ((bundle.producer, _PRODUCER), (bundle.consumer, _CONSUMER)):
        for resource in resources if wanted else ():
            for operation in needed.get(resource.resource_type, ()):
                used.add(resource.resource_type)
                yield resource, operation
    if bundle.idempotent:
        used.add(ResourceType.CLUSTER)
        yield Resource(ResourceType.CLUSTER, CLUSTER_NAME), Operation.IDEMPOTENT_WRITE
    for kind in sorted(kinds - used):
        raise ConfigError(f"{word_of(kind)} is no part of these bundles")
