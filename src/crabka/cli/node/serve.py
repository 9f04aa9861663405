"""`crabka serve`: a node from a server.properties file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crabka.cli.node.process import (
    NodeArgumentParser,
    given_settings,
    load_config,
    node_parser,
    parse_arguments,
    run_node,
)
from crabka.config.properties import parse_properties
from crabka.errors import ConfigError


def serve_parser() -> NodeArgumentParser:
    """Return the parser of the options."""
    parser = node_parser("serve", "Start a node from a server.properties file; format its directories first.")
    parser.add_argument("--config", required=True, metavar="FILE", help="the properties file, in the format of Kafka")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="override a setting of the file"
    )
    parser.add_argument(
        "--insecure-ignore-security", action="store_true", help="ignore the security settings of the file"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code. Raises ConfigError."""
    options = parse_arguments(serve_parser(), arguments)
    if isinstance(options, int):
        return options
    properties = read_properties(options.config) | given_settings(options.override, "--override")
    config = load_config(properties, insecure_ignore_security=options.insecure_ignore_security)
    return run_node(config, format_new=False)


def read_properties(path: str) -> dict[str, str]:
    """Read a properties file. Raises ConfigError when it cannot be read or parsed."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {reason}") from error
    return parse_properties(text)
