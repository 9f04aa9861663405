"""`crabka format`: prepare the directories of a node, as `kafka-storage format` does."""

from __future__ import annotations

from typing import Annotated

import typer

from crabka.cli.node_process import load_config, parse_settings
from crabka.cli.options import AsJson
from crabka.cli.output import print_done
from crabka.cli.serve import read_properties
from crabka.errors import ConfigError
from crabka.ids import uuid_from_text
from crabka.metadata.features import METADATA_VERSION
from crabka.quorum.formatting import format_storage, parse_release_version
from crabka.quorum.storage import read_meta_properties
from crabka.runtime import real_runtime


def format_(
    *,
    config: Annotated[str, typer.Option("--config", metavar="FILE", help="server.properties.", show_default=False)],
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", help="22 characters; else that of its other directories, or a new one."),
    ] = None,
    standalone: Annotated[bool, typer.Option("--standalone", help="This node is the only voter (default).")] = False,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="The node will join a quorum that exists.")
    ] = False,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", metavar="NAME=LEVEL", help="Another level than the newest.")
    ] = None,
    release_version: Annotated[
        str | None, typer.Option("--release-version", help="The metadata.version of a Kafka release, as 4.3.")
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Skip directories that are formatted.")
    ] = False,
    insecure_ignore_security: Annotated[
        bool, typer.Option("--insecure-ignore-security", help="Accept a file that asks for security.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Format the directories of a node."""
    if standalone and no_initial_controllers:
        raise ConfigError("--standalone and --no-initial-controllers exclude each other")
    server = load_config(read_properties(config), insecure_ignore_security=insecure_ignore_security)
    runtime = real_runtime()
    try:
        written = format_storage(
            runtime,
            server,
            _checked_cluster_id(cluster_id),
            standalone=server.is_controller and not no_initial_controllers,
            features=_features(feature, release_version),
            ignore_formatted=ignore_formatted,
        )
        chosen = read_meta_properties(runtime.fs, server.metadata_log_dir).cluster_id
    finally:
        runtime.threads.close()
    message = f"formatted {', '.join(written)} for cluster {chosen}" if written else "nothing to format"
    print_done(message, as_json=as_json, result={"cluster_id": chosen, "formatted": written})


def _checked_cluster_id(text: str | None) -> str | None:
    try:
        if text is not None:
            uuid_from_text(text)
    except ValueError as error:
        raise ConfigError(f"--cluster-id: {error}") from error
    return text


def _features(texts: list[str] | None, release_version: str | None) -> dict[str, int]:
    levels: dict[str, int] = {}
    if release_version is not None:
        levels[METADATA_VERSION] = parse_release_version(release_version)
    for name, level in parse_settings(texts or (), "--feature").items():
        if not level.isdecimal():
            raise ConfigError(f"--feature {name}={level}: the level is not a number")
        levels[name] = int(level)
    return levels
