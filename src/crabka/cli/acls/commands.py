"""`crabka acls`: list, add, remove, and explain which one decides."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from crabka.cli.acls.bundles import Bundle, Grantees, wanted_acls
from crabka.cli.acls.options import (
    ACL_COLUMNS,
    Groups,
    Hosts,
    OnCluster,
    Operations,
    Prefixed,
    Resource,
    Tokens,
    Topics,
    TransactionalIds,
    Users,
    acl_row,
    operation_of,
    principal_of,
    resources_of,
    word_of,
)
from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, BootstrapController, CommandConfig, Execute
from crabka.cli.output import print_json, print_plan_note, print_rows
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.errors import ConfigError
from crabka.security.acls import Acl, AclFilter, PatternType, ResourceType, host_address
from crabka.security.authorizer import Requester
from crabka.security.principal import parse_principal
from crabka.security.standard_authorizer import StandardAuthorizer

app = typer.Typer(help="ACLs: list, add, remove, explain.", no_args_is_help=False)

Allowed = Annotated[
    list[str] | None, typer.Option("--allow", metavar="User:NAME", help="Allow a user.", show_default=False)
]
Denied = Annotated[
    list[str] | None, typer.Option("--deny", metavar="User:NAME", help="Deny a user.", show_default=False)
]
OfProducer = Annotated[bool, typer.Option("--producer", help="What a producer needs.")]
OfConsumer = Annotated[bool, typer.Option("--consumer", help="What a consumer needs.")]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="What an idempotent producer without topics needs.")]
OnePrincipal = Annotated[str, typer.Option("--principal", metavar="User:NAME", help="The user.", show_default=False)]


@app.command("list")
def list_(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    delegation_token: Tokens = None,
    user_principal: Users = None,
    cluster: OnCluster = False,
    matching: Annotated[bool, typer.Option("--matching", help="All ACLs that apply to the names.")] = False,
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="User:NAME", help="Only of a user.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List ACLs: all, or those about some resources or of some users."""
    named = resources_of(
        topic, group, transactional_id, cluster=cluster, more=_others(delegation_token, user_principal)
    )
    kind = PatternType.MATCH if matching else PatternType.ANY
    principals = [principal_of(each) for each in principal or ()]

    async def find(admin: Admin) -> list[Acl]:
        found: dict[Acl, None] = {}
        for each in named or (None,):
            about = AclFilter() if each is None else AclFilter(each.resource_type, each.name, kind)
            for user in principals or (None,):
                found.update(dict.fromkeys(await admin.acls.describe(about._replace(principal=user))))
        return sorted(found)

    acls = with_admin(bootstrap, find, controllers=bootstrap_controller, command_config=command_config)
    print_rows(ACL_COLUMNS, [acl_row(acl) for acl in acls], as_json=as_json)


@app.command()
def add(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    allow: Allowed = None,
    deny: Denied = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    delegation_token: Tokens = None,
    user_principal: Users = None,
    cluster: OnCluster = False,
    prefix: Prefixed = False,
    host: Hosts = None,
    producer: OfProducer = False,
    consumer: OfConsumer = False,
    idempotent: Idempotent = False,
    as_json: AsJson = False,
) -> None:
    """Add ACLs; those that are there already stay."""
    acls = wanted_acls(
        resources_of(topic, group, transactional_id, cluster=cluster, more=_others(delegation_token, user_principal)),
        [operation_of(each) for each in operation or ()],
        Bundle(producer, consumer, idempotent),
        _grantees(allow, deny, host),
        prefixed=prefix,
    )
    with_admin(
        bootstrap,
        lambda admin: admin.acls.create(acls),
        controllers=bootstrap_controller,
        command_config=command_config,
    )
    print_rows(ACL_COLUMNS, [acl_row(acl) for acl in acls], as_json=as_json)


@app.command()
def remove(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    allow: Allowed = None,
    deny: Denied = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    delegation_token: Tokens = None,
    user_principal: Users = None,
    cluster: OnCluster = False,
    prefix: Prefixed = False,
    host: Hosts = None,
    producer: OfProducer = False,
    consumer: OfConsumer = False,
    idempotent: Idempotent = False,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Remove ACLs: named as with `add`, or without users and operations all about some resources."""
    named = resources_of(
        topic, group, transactional_id, cluster=cluster, more=_others(delegation_token, user_principal)
    )
    bundle = Bundle(producer, consumer, idempotent)
    if allow or deny or operation or bundle.is_asked:
        operations = [operation_of(each) for each in operation or ()]
        exact = wanted_acls(named, operations, bundle, _grantees(allow, deny, host), prefixed=prefix)
        filters = [AclFilter(*acl) for acl in exact]
    elif named:
        kind = PatternType.PREFIXED if prefix else PatternType.LITERAL
        filters = [
            AclFilter(each.resource_type, each.name, kind, host=address)
            for each in named
            for address in _hosts(host) or (None,)
        ]
    else:
        raise ConfigError("name what to remove: --topic, --group, …, and perhaps --allow and --operation")

    async def change(admin: Admin) -> list[Acl]:
        if execute:
            return await admin.acls.delete(filters)
        found: dict[Acl, None] = {}
        for each in filters:
            found.update(dict.fromkeys(await admin.acls.describe(each)))
        return list(found)

    acls = sorted(with_admin(bootstrap, change, controllers=bootstrap_controller, command_config=command_config))
    print_rows(ACL_COLUMNS, [acl_row(acl) for acl in acls], as_json=as_json)
    print_plan_note(execute=execute, done=f"removed {len(acls)} ACLs", as_json=as_json)


@app.command()
def explain(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    principal: OnePrincipal,
    operation: Annotated[
        str, typer.Option("--operation", "-o", metavar="OPERATION", help="Read, Write, …", show_default=False)
    ],
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address of the client.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Show whether the ACLs of a cluster allow an operation, and which one decides.

    What a node knows from its own file is not known here: super users, and allow.everyone.if.no.acl.found.
    """
    user = parse_principal(principal_of(principal))
    wanted = operation_of(operation)
    named = resources_of(topic, group, transactional_id, cluster=cluster)
    if not named:
        raise ConfigError("name resources: --topic, --group, --transactional-id or --cluster")
    acls = with_admin(
        bootstrap,
        lambda admin: admin.acls.describe(AclFilter()),
        controllers=bootstrap_controller,
        command_config=command_config,
    )
    authorizer = StandardAuthorizer({})
    authorizer.load({UUID(int=number): acl for number, acl in enumerate(acls)})
    rows = []
    for each in named:
        verdict = authorizer.explain(Requester(user, host_address(host)), wanted, each.resource_type, each.name)
        decided_by = "no ACL matches" if verdict.acl is None else str(verdict.acl)
        row = {"resource": word_of(each.resource_type), "name": each.name, "allowed": verdict.allowed}
        rows.append({**row, "rule": verdict.rule, "decided_by": decided_by})
    if as_json:
        print_json(rows)
    else:
        columns = ("resource", "name", "allowed", "decided_by")
        print_rows(columns, rows, as_json=False)


def _others(tokens: list[str] | None, users: list[str] | None) -> list[Resource]:
    return [
        *(Resource(ResourceType.DELEGATION_TOKEN, name) for name in tokens or ()),
        *(Resource(ResourceType.USER, principal_of(name)) for name in users or ()),
    ]


def _hosts(given: list[str] | None) -> list[str]:
    return [host_address(each) for each in given or ()]


def _grantees(allow: list[str] | None, deny: list[str] | None, host: list[str] | None) -> Grantees:
    return Grantees(
        [principal_of(each) for each in allow or ()], [principal_of(each) for each in deny or ()], _hosts(host)
    )
