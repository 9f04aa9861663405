"""`crabka format`: prepare the directories of a node, as `kafka-storage format` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from crabka.cli.node.process import load_config, parse_settings
from crabka.cli.node.serve import read_properties
from crabka.cli.options import AsJson
from crabka.cli.output import print_done
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.ids import uuid_from_text
from crabka.metadata.features import METADATA_VERSION, METADATA_VERSION_NAMES
from crabka.metadata.records import UserScramCredentialRecord
from crabka.ports import FileSystem
from crabka.quorum.formatting import format_storage, is_formatted, new_cluster_id, parse_release_version
from crabka.quorum.initial_controllers import parse_initial_controllers
from crabka.quorum.log.voters import VoterNode
from crabka.quorum.storage import read_meta_properties
from crabka.runtime import real_runtime
from crabka.runtime.entropy import secure_random
from crabka.security.sasl.scram_credentials import SCRAM_METADATA_VERSION, parse_credential, scram_record
from crabka.security.sasl.scram_server import SALT_BITS, scram_text


def format_(
    *,
    config: Annotated[str, typer.Option("--config", metavar="FILE", help="server.properties.", show_default=False)],
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", help="22 characters, the same for all nodes; --standalone may generate one."),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Start a quorum with this controller as its only voter.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            metavar="ID@HOST:PORT:DIRECTORY,…",
            help="Start a quorum with these controllers; the same text for all nodes.",
            show_default=False,
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="Join a quorum that exists.")
    ] = False,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", metavar="NAME=LEVEL", help="A level other than the newest.")
    ] = None,
    release_version: Annotated[
        str | None, typer.Option("--release-version", help="The metadata.version of a Kafka release, such as 4.3.")
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="MECHANISM=[name=USER,password=…]",
            help="A user of a new cluster, such as SCRAM-SHA-512=[name=admin,password=…].",
            show_default=False,
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Skip directories that are already formatted.")
    ] = False,
    insecure_ignore_security: Annotated[
        bool, typer.Option("--insecure-ignore-security", help="Ignore security settings in the file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Format the directories of a node. A controller of a dynamic quorum also needs one of the quorum options."""
    server = load_config(read_properties(config), insecure_ignore_security=insecure_ignore_security)
    modes = {"--standalone": standalone, "--initial-controllers": initial_controllers is not None}
    chosen = [name for name, used in {**modes, "--no-initial-controllers": no_initial_controllers}.items() if used]
    _check_mode(server, chosen)
    voters = () if initial_controllers is None else _voters(server, initial_controllers)
    levels = _features(feature, release_version)
    runtime = real_runtime()
    try:
        _check_cluster_id(runtime.fs, server, cluster_id, may_be_new=standalone)
        written = format_storage(
            runtime,
            server,
            cluster_id,
            standalone=standalone,
            initial_controllers=voters,
            features=levels,
            records=_scram_records(add_scram or (), levels),
            ignore_formatted=ignore_formatted,
        )
        agreed = read_meta_properties(runtime.fs, server.metadata_log_dir).cluster_id
    finally:
        runtime.threads.close()
    message = f"formatted {', '.join(written)} for cluster {agreed}" if written else "nothing to format"
    print_done(message, as_json=as_json, result={"cluster_id": agreed, "formatted": written})


def random_uuid(*, as_json: AsJson = False) -> None:
    """Print a new id for a cluster or for the directory of a controller."""
    runtime = real_runtime()
    try:
        made = new_cluster_id(runtime)
    finally:
        runtime.threads.close()
    print_done(made, as_json=as_json, result=made)


def _check_mode(server: ServerConfig, chosen: list[str]) -> None:
    """Refuse options that exclude each other or do not fit the node, as kafka-storage does."""
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} exclude each other")
    if server.controller_quorum_voters:
        if chosen and chosen != ["--no-initial-controllers"]:
            raise ConfigError(
                f"{chosen[0]} does not go with controller.quorum.voters, which fixes the quorum: for a dynamic one "
                "remove it and set controller.quorum.bootstrap.servers"
            )
    elif server.is_controller and not chosen:
        raise ConfigError(
            "controller.quorum.voters is not set, choose how the quorum of this controller starts: --standalone, "
            "--initial-controllers or --no-initial-controllers"
        )
    if chosen == ["--standalone"] and not server.is_controller:
        raise ConfigError("--standalone is for controllers; process.roles of this node has no controller")


def _voters(server: ServerConfig, text: str) -> tuple[VoterNode, ...]:
    try:
        voters = parse_initial_controllers(text, server.controller_listener_names[0])
    except ConfigError as error:
        raise ConfigError(f"--initial-controllers: {error}") from error
    if server.is_controller and server.node_id not in {voter.voter_id for voter in voters}:
        raise ConfigError(
            f"--initial-controllers: this controller, node {server.node_id}, is not among them; "
            "format a controller that joins later with --no-initial-controllers"
        )
    return voters


def _check_cluster_id(fs: FileSystem, server: ServerConfig, text: str | None, *, may_be_new: bool) -> None:
    """Refuse a bad id. Refuse a missing one where a generated id would exclude the node from its cluster for ever."""
    try:
        if text is not None:
            uuid_from_text(text)
    except ValueError as error:
        raise ConfigError(f"--cluster-id: {error}") from error
    is_known = any(is_formatted(fs, directory) for directory in (*server.log_dirs, server.metadata_log_dir))
    if text is None and not may_be_new and not is_known:
        raise ConfigError(
            "--cluster-id is missing: all nodes of a cluster share one; `crabka random-uuid` prints a new one"
        )


def _scram_records(texts: Sequence[str], levels: Mapping[str, int]) -> list[UserScramCredentialRecord]:
    level = levels.get(METADATA_VERSION)
    if texts and level is not None and level < SCRAM_METADATA_VERSION:
        name = METADATA_VERSION_NAMES[SCRAM_METADATA_VERSION]
        raise ConfigError(f"--add-scram needs {METADATA_VERSION} {name} or later")
    rng = secure_random()
    credentials = [parse_credential(text, lambda: scram_text(rng.getrandbits(SALT_BITS)).encode()) for text in texts]
    if len({credential.key for credential in credentials}) < len(credentials):
        raise ConfigError("--add-scram: a user is given twice for the same mechanism")
    return [scram_record(credential) for credential in credentials]


def _features(texts: list[str] | None, release_version: str | None) -> dict[str, int]:
    levels: dict[str, int] = {}
    if release_version is not None:
        levels[METADATA_VERSION] = parse_release_version(release_version)
    for name, level in parse_settings(texts or (), "--feature").items():
        if not level.isdecimal():
            raise ConfigError(f"--feature {name}={level}: the level is not a number")
        levels[name] = int(level)
    return levels
