"""`crabka quotas`: list, set and remove quotas of clients."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import typer

from crabka.cli.option_groups import with_option_groups
from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, CommandConfig, Execute
from crabka.cli.output import Column, Kind, Row, print_plan_note, print_rows
from crabka.cli.quotas.entities import (
    BYTE_RATES,
    CLIENT_KEYS,
    IP_KEYS,
    EntityOptions,
    check_key,
    check_new_user,
    entity_text,
    ordered,
    parse_quotas,
)
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.quotas import EntityQuotas
from crabka.errors import ConfigError, OperationError
from crabka.protocol.error_codes import ErrorCode

app = typer.Typer(help="Quotas of clients: list, set, remove.", no_args_is_help=False)

_KEYS: Final = (*CLIENT_KEYS, *IP_KEYS)
_LABELS: Final = dict(zip(_KEYS, ("produce", "consume", "request %", "mutations", "connections"), strict=True))


@app.command("list")
@with_option_groups
def list_(
    *,
    entity: EntityOptions,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List quotas: all, or those that are about a user, a client id or an address."""
    wanted = entity.entity()
    found = with_admin(bootstrap, lambda admin: admin.quotas.describe(wanted), command_config=command_config)
    _print(found, as_json=as_json)


@app.command("set")
@with_option_groups
def set_(
    quotas: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...", help="Such as producer_byte_rate=10MB (in a second).", show_default=False
        ),
    ],
    *,
    entity: EntityOptions,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Set quotas; other quotas of the same user, client id or address stay.

    Keys: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; of an address
    connection_creation_rate. With a user and a client id they are about that client of that user.
    """
    wanted = entity.named_entity()
    check_new_user(wanted)
    values = parse_quotas(quotas, wanted)
    with_admin(bootstrap, lambda admin: admin.quotas.alter(wanted, values), command_config=command_config)
    _print([EntityQuotas(wanted, values)], as_json=as_json)


@app.command()
@with_option_groups
def remove(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Quotas; without any, all.", show_default=False)
    ] = None,
    *,
    entity: EntityOptions,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of a user, a client id or an address: some, or all."""
    wanted = entity.named_entity()
    for key in keys or ():
        if "=" in key:
            raise ConfigError(f"{key}: name the quota without its value")
        check_key(key, wanted)

    async def change(admin: Admin) -> EntityQuotas:
        values = _chosen(await admin.quotas.describe(wanted, strict=True), keys or ())
        if not values:
            what = " or ".join(keys) if keys else "quotas"
            raise OperationError(
                ErrorCode.resource_not_found, f"{entity_text(wanted)} has no {what}; `crabka quotas list` shows all"
            )
        if execute:
            await admin.quotas.alter(wanted, dict.fromkeys(values))
        return EntityQuotas(wanted, values)

    removed = with_admin(bootstrap, change, command_config=command_config)
    _print([removed], as_json=as_json)
    print_plan_note(execute=execute, done=f"removed {', '.join(removed.values)}", as_json=as_json)


def _chosen(found: Iterable[EntityQuotas], keys: Iterable[str]) -> dict[str, float]:
    wanted = set(keys)
    return {key: value for each in found for key, value in each.values.items() if not wanted or key in wanted}


def _print(found: Iterable[EntityQuotas], *, as_json: bool) -> None:
    listed = sorted(found, key=lambda each: entity_text(each.entity))
    used = {key for each in listed for key in each.values}
    # Keys that a newer cluster knows are shown as well.
    keys = [*_KEYS, *sorted(used - set(_KEYS))]
    # A table leaves out quotas that are not set; the columns of a pipe are always the same.
    columns = [_column(key) for key in keys if key in used or not sys.stdout.isatty()]
    rows = [_row(each, keys, as_json=as_json) for each in listed]
    print_rows(("entity", *columns), rows, as_json=as_json)


def _column(key: str) -> Column:
    return Column(key, _LABELS.get(key, ""), kind=Kind.RATE if key in BYTE_RATES else Kind.PLAIN)


def _row(found: EntityQuotas, keys: Iterable[str], *, as_json: bool) -> Row:
    entity: Mapping[str, str | None] | str = ordered(found.entity) if as_json else entity_text(found.entity)
    return {"entity": entity, **{key: _plain(found.values.get(key)) for key in keys}}


def _plain(value: float | None) -> float | None:
    """Return whole numbers without a fraction."""
    return int(value) if value is not None and value.is_integer() else value
