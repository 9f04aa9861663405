"""Options that name resources, users and operations of ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import typer

from crabka.errors import ConfigError
from crabka.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from crabka.security.principal import parse_principal

Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; '*' is all.", show_default=False)
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", "-g", metavar="GROUP", help="A group; '*' is all.", show_default=False)
]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; '*' is all.", show_default=False),
]
Tokens = Annotated[
    list[str] | None, typer.Option("--delegation-token", metavar="ID", help="A token's id.", show_default=False)
]
Users = Annotated[
    list[str] | None,
    typer.Option("--user-principal", metavar="User:NAME", help="A user, as what tokens are about.", show_default=False),
]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefix", help="Names are the beginnings of names.")]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", metavar="ADDRESS", help="Only from an address.", show_default=False)
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", "-o", metavar="OPERATION", help="Read, Write, All, …", show_default=False),
]

ACL_COLUMNS: Final = ("resource", "name", "pattern", "principal", "host", "operation", "permission")


class Resource(NamedTuple):
    """A resource that options name."""

    resource_type: ResourceType
    name: str


def resources_of(
    topics: Iterable[str] | None,
    groups: Iterable[str] | None,
    transactional_ids: Iterable[str] | None,
    *,
    cluster: bool,
    more: Sequence[Resource] = (),
) -> list[Resource]:
    """Return the resources that options name."""
    return [
        *(Resource(ResourceType.TOPIC, name) for name in topics or ()),
        *(Resource(ResourceType.GROUP, name) for name in groups or ()),
        *(Resource(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids or ()),
        *more,
        *((Resource(ResourceType.CLUSTER, CLUSTER_NAME),) if cluster else ()),
    ]


def operation_of(text: str) -> Operation:
    """Return an operation by its name, such as `DescribeConfigs` or `DESCRIBE_CONFIGS`. Raises ConfigError."""
    plain = text.replace("_", "").replace("-", "").lower()
    for operation in Operation:
        if operation > Operation.ANY and operation.name.replace("_", "").lower() == plain:
            return operation
    names = ", ".join(word_of(each) for each in Operation if each > Operation.ANY)
    raise ConfigError(f"{text}: not an operation; there are {names}")


def word_of(code: Operation | Permission | PatternType | ResourceType) -> str:
    """Return the name of a code as Kafka's tools write it, such as `DescribeConfigs`."""
    return "".join(part.capitalize() for part in code.name.split("_"))


def principal_of(text: str) -> str:
    """Return a principal that was given, after a look at its form. Raises ConfigError."""
    try:
        return str(parse_principal(text))
    except ValueError as error:
        raise ConfigError(f"{text}: not a principal; write User:{text or 'NAME'}") from error


def acl_row(acl: Acl) -> dict[str, object]:
    """Return an ACL as a row of a table."""
    return {
        "resource": word_of(acl.resource_type),
        "name": acl.name,
        "pattern": word_of(acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": word_of(acl.operation),
        "permission": word_of(acl.permission),
    }
