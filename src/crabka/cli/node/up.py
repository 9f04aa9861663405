"""`crabka up`: one node without a configuration file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from crabka.cli.node.process import (
    NodeArgumentParser,
    given_settings,
    load_config,
    node_parser,
    parse_arguments,
    run_node,
)
from crabka.config.listeners import format_address, parse_address
from crabka.config.presets import one_node_properties, tiered_node_properties
from crabka.errors import ConfigError

log = logging.getLogger("crabka.node")

DEFAULT_DATA_DIR = "./crabka-data"
DEFAULT_LISTEN = "127.0.0.1:9092"


def up_parser() -> NodeArgumentParser:
    """Return the parser of the options."""
    parser = node_parser("up", "Start one node, formatting its directory if it is new.")
    parser.add_argument("--data-dir", default=DEFAULT_DATA_DIR, help=f"data directory ({DEFAULT_DATA_DIR})")
    parser.add_argument("--listen", default=DEFAULT_LISTEN, help=f"HOST:PORT, port 0 picks one ({DEFAULT_LISTEN})")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in server.properties"
    )
    parser.add_argument(
        "--tier", metavar="URL", help="remote tier for old segments: file:///directory, s3://bucket/prefix"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code. Raises ConfigError."""
    options = parse_arguments(up_parser(), arguments)
    if isinstance(options, int):
        return options
    host, port = parse_address(options.listen)
    properties = one_node_properties(options.data_dir, host, port)
    if options.tier is not None:
        properties |= tiered_node_properties(storage_settings(options.tier))
    chosen = given_settings(options.set, "--set")
    if not {"listeners", "advertised.listeners"} & chosen.keys():
        properties |= advertised_properties(host, port)
    properties |= chosen
    if "listeners" not in chosen and not is_loopback(host):
        log.warning("%s", open_to_the_network(options.listen))
    return run_node(load_config(properties), format_new=True)


def advertised_properties(host: str, port: int) -> dict[str, str]:
    """Return what clients are given as address; nothing if it is the one of --listen."""
    # Only nodes on all addresses ask for the name of the machine.
    from crabka.runtime.own_address import ANY_HOSTS, reachable_host

    if host not in ANY_HOSTS:
        return {}
    return {"advertised.listeners": f"PLAINTEXT://{format_address(reachable_host(host), port)}"}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_to_the_network(listen: str) -> str:
    """Return the warning for a node that other machines can connect to."""
    return (
        f"--listen {listen}: everyone on the network can read, write and delete here, without log-in or encryption; "
        "use 127.0.0.1 to serve this machine alone, or `crabka serve` with a listener that has security"
    )


def storage_settings(tier: str) -> dict[str, str]:
    """Return the settings of the storage that --tier names. Raises ConfigError."""
    # The libraries of object stores are loaded only with a tier.
    from crabka.remote.backends.url import storage_settings_of_url

    try:
        return storage_settings_of_url(tier if "://" in tier else str(Path(tier).resolve()))
    except ConfigError as error:
        raise ConfigError(f"--tier {tier}: {error}") from error
