"""`crabka up`: one node with no file to write first."""

from __future__ import annotations

from collections.abc import Sequence

from crabka.cli.node_process import load_config, node_parser, parse_arguments, parse_settings, run_node
from crabka.config.listeners import parse_address
from crabka.config.one_node import one_node_properties
from crabka.errors import ConfigError

DEFAULT_DATA_DIR = "./crabka-data"
DEFAULT_LISTEN = "127.0.0.1:9092"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code. Raises ConfigError."""
    parser = node_parser("up", "Start one node, formatting its directory if it is new.")
    parser.add_argument("--data-dir", default=DEFAULT_DATA_DIR, help=f"where data lives ({DEFAULT_DATA_DIR})")
    parser.add_argument("--listen", default=DEFAULT_LISTEN, help=f"HOST:PORT, port 0 picks one ({DEFAULT_LISTEN})")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in a file")
    parser.add_argument("--tier", metavar="URI", help="where old segments go")
    options = parse_arguments(parser, arguments)
    if isinstance(options, int):
        return options
    if options.tier is not None:
        raise ConfigError("--tier: tiered storage is not built yet")
    host, port = parse_address(options.listen)
    properties = one_node_properties(options.data_dir, host, port) | parse_settings(options.set, "--set")
    return run_node(load_config(properties), format_new=True)
