"""`crabka configs`: show and change settings of topics, brokers, groups and subscriptions."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from crabka.cli.node.process import given_settings, parse_settings
from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, CommandConfig
from crabka.cli.output import Column, Row, print_done, print_rows
from crabka.cli.session import with_admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOperation, ConfigOwner, ConfigValue, ResourceType
from crabka.config.keys import ConfigType
from crabka.config.resolve import ConfigSource
from crabka.errors import ConfigError

app = typer.Typer(help="Settings of topics, brokers and groups.", no_args_is_help=False)


class Kind(Enum):
    """Kinds of owners of settings, as typed on the command line."""

    TOPIC = "topic"
    BROKER = "broker"
    LOGGER = "logger"
    GROUP = "group"
    METRICS = "metrics"


_RESOURCE_TYPES = {
    Kind.TOPIC: ResourceType.TOPIC,
    Kind.BROKER: ResourceType.BROKER,
    Kind.LOGGER: ResourceType.BROKER_LOGGER,
    Kind.GROUP: ResourceType.GROUP,
    Kind.METRICS: ResourceType.CLIENT_METRICS,
}

KindArgument = Annotated[Kind, typer.Argument(help="Kind of the owner of the settings.", show_default=False)]
NameArgument = Annotated[
    str, typer.Argument(metavar="[NAME]", help="Name or id of the owner; empty for all brokers.", show_default=False)
]


@app.command()
def describe(
    kind: KindArgument,
    name: NameArgument = "",
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Show defaults too.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Print the description of each setting.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show settings; without --all only those that are set explicitly."""
    resource = _resource(kind, name)
    found = with_admin(
        bootstrap, lambda admin: admin.describe_configs(resource, documentation=docs), command_config=command_config
    )
    shown = [found[key] for key in sorted(found) if all_ or found[key].source != ConfigSource.DEFAULT_CONFIG]
    columns = ("key", "value", Column("source", yields=1), *(("meaning",) if docs else ()))
    print_rows(columns, [_row(value) for value in shown], as_json=as_json)


@app.command()
def alter(
    kind: KindArgument,
    name: NameArgument = "",
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value.")] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add members to a list.")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", metavar="KEY=VALUE", help="Remove members from a list.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="KEY", help="Restore the default.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change settings; all of them or none."""
    changes = [
        *(ConfigChange(key, text) for key, text in given_settings(set_ or (), "--set").items()),
        *_changes(append, "--append", ConfigOperation.APPEND),
        *_changes(subtract, "--subtract", ConfigOperation.SUBTRACT),
        *(ConfigChange(key, None, ConfigOperation.DELETE) for key in delete or ()),
    ]
    if not changes:
        raise ConfigError("nothing to change: give --set, --append, --subtract or --delete")
    resource = _resource(kind, name)
    with_admin(bootstrap, lambda admin: admin.alter_configs(resource, changes), command_config=command_config)
    keys = [change.name for change in changes]
    print_done(f"changed {', '.join(keys)} of {kind.value} {name or '(all)'}", as_json=as_json, result=keys)


def _changes(texts: list[str] | None, option: str, operation: ConfigOperation) -> list[ConfigChange]:
    return [ConfigChange(key, text, operation) for key, text in parse_settings(texts or (), option).items()]


def _resource(kind: Kind, name: str) -> ConfigOwner:
    if not name and kind is not Kind.BROKER:
        raise ConfigError(f"which {kind.value}? give its name")
    if name and kind in {Kind.BROKER, Kind.LOGGER} and not name.isdecimal():
        raise ConfigError(f"{name} is not a broker id")
    return ConfigOwner(_RESOURCE_TYPES[kind], name)


def _row(value: ConfigValue) -> Row:
    return {
        "key": value.name,
        "value": "(hidden)" if value.is_sensitive else value.value,
        "source": ConfigSource(value.source).name.removesuffix("_CONFIG").lower().replace("_", " "),
        "read_only": value.is_read_only,
        "type": ConfigType(value.type).name.lower() if value.type else "unknown",
        "meaning": value.documentation,
        "synonyms": [{"key": name, "value": text, "source": source} for name, text, source in value.synonyms],
    }
