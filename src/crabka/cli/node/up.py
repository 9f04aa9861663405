"""`crabka up`: one node without a configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crabka.cli.node.process import load_config, node_parser, parse_arguments, parse_settings, run_node
from crabka.config.listeners import parse_address
from crabka.config.presets import one_node_properties, tiered_node_properties
from crabka.errors import ConfigError

DEFAULT_DATA_DIR = "./crabka-data"
DEFAULT_LISTEN = "127.0.0.1:9092"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code. Raises ConfigError."""
    parser = node_parser("up", "Start one node, formatting its directory if it is new.")
    parser.add_argument("--data-dir", default=DEFAULT_DATA_DIR, help=f"data directory ({DEFAULT_DATA_DIR})")
    parser.add_argument("--listen", default=DEFAULT_LISTEN, help=f"HOST:PORT, port 0 picks one ({DEFAULT_LISTEN})")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in server.properties"
    )
    parser.add_argument(
        "--tier", metavar="URL", help="remote tier for old segments: file:///directory, s3://bucket/prefix"
    )
    options = parse_arguments(parser, arguments)
    if isinstance(options, int):
        return options
    host, port = parse_address(options.listen)
    properties = one_node_properties(options.data_dir, host, port)
    if options.tier is not None:
        properties |= tiered_node_properties(storage_settings(options.tier))
    properties |= parse_settings(options.set, "--set")
    return run_node(load_config(properties), format_new=True)


def storage_settings(tier: str) -> dict[str, str]:
    """Return the settings of the storage that --tier names. Raises ConfigError."""
    # The libraries of object stores are loaded only with a tier.
    from crabka.remote.backends.url import storage_settings_of_url

    try:
        return storage_settings_of_url(tier if "://" in tier else str(Path(tier).resolve()))
    except ConfigError as error:
        raise ConfigError(f"--tier {tier}: {error}") from error
