"""A node as a process: options that `up` and `serve` share, start, signals, stop."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from crabka.cli.examples import examples_text
from crabka.cli.node.logs import LOG_FORMATS, LOG_LEVELS, set_up_logging
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError, CrabkaError

if TYPE_CHECKING:
    # Imported where they are used: `--help` and a bad option must not load the modules of the broker.
    from crabka.node.node import Node
    from crabka.ports import Runtime

log = logging.getLogger("crabka.node")

EXIT_NODE_FAILED = 1
# Descriptors that a node should have for the sockets of its clients.
CONNECTION_FILES = 1000


class NodeArgumentParser(argparse.ArgumentParser):
    """A parser that reports errors on one line, as all other commands do."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise ConfigError(f"{message} (see `{self.prog} --help`)")


def node_parser(command: str, description: str) -> NodeArgumentParser:
    """Return a parser with the options of every command that runs a node."""
    parser = NodeArgumentParser(
        prog=f"crabka {command}",
        description=description,
        epilog=examples_text(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--log-format", choices=LOG_FORMATS, default="text", help="format of log lines (text)")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info", help="lowest level that is logged (info)")
    return parser


def parse_arguments(parser: NodeArgumentParser, arguments: Sequence[str]) -> argparse.Namespace | int:
    """Parse the arguments and set up logging, or return an exit code after --help."""
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    set_up_logging(options.log_format, options.log_level)
    return options


def parse_settings(texts: Iterable[str], option: str) -> dict[str, str]:
    """Turn `key=value` texts into a mapping. Raises ConfigError."""
    settings: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"{option} {text}: not of the form key=value")
        settings[key.strip()] = value.strip()
    return settings


def given_settings(texts: Sequence[str], option: str) -> dict[str, str]:
    """Turn `key=value` texts into settings of Kafka: `log.retention.ms=7d`, too. Raises ConfigError."""
    if not texts:
        return {}
    # A node that starts without such options does not load it.
    from crabka.cli.units import parse_config_settings

    return parse_config_settings(texts, option)


def load_config(properties: dict[str, str], *, insecure_ignore_security: bool = False) -> ServerConfig:
    """Parse a node's properties and log warnings for its operator. Raises ConfigError."""
    config, warnings = ServerConfig.from_properties(properties, insecure_ignore_security=insecure_ignore_security)
    for warning in warnings:
        log.warning("%s", warning)
    return config


def run_node(config: ServerConfig, *, format_new: bool) -> int:
    """Run a node until a signal or a failure ends it; return the exit code."""
    from crabka.runtime import collect_less_often, raise_open_file_limit, return_large_memory, run

    collect_less_often()
    return_large_memory()
    file_limit = raise_open_file_limit()
    return run(_serve(config, format_new=format_new, file_limit=file_limit))


async def _serve(config: ServerConfig, *, format_new: bool, file_limit: int) -> int:
    from crabka.node.node import Node
    from crabka.runtime import PeriodicCollector, real_runtime

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runtime = real_runtime()
    try:
        if format_new:
            _format_if_new(runtime, config)
        node = Node(config, runtime)
        if not await _start(node, stop):
            return 0
        # Objects that exist now live as long as the node: the garbage collector can skip them.
        gc.collect()
        gc.freeze()
        if config.is_broker:
            print(f"bootstrap.servers={node.bootstrap_servers}", flush=True)
        else:
            print(f"bootstrap.controllers={node.bootstrap_controllers}", flush=True)
        address = node.bootstrap_servers or node.bootstrap_controllers
        log.info("node %d is ready on %s", config.node_id, address)
        if node.side_port_address is not None:
            log.info("metrics and health are on http://%s", node.side_port_address)
        warn_of_file_limit(node.open_file_count, file_limit)
        code = EXIT_NODE_FAILED
        try:
            with PeriodicCollector():
                code = await _wait_for_end(node, stop)
        finally:
            await _stop(node, has_failed=code == EXIT_NODE_FAILED)
        return code
    finally:
        runtime.threads.close()


async def _stop(node: Node, *, has_failed: bool) -> None:
    """Stop a node. What fails because of a failure that was reported already is not reported as another one."""
    try:
        await node.stop()
    except (CrabkaError, OSError) as error:
        if not has_failed:
            raise
        log.debug("the stop after the failure failed: %s", error)


async def _start(node: Node, stop: asyncio.Event) -> bool:
    """Start a node; return False if a signal came first: a node that waits for its quorum must be stoppable."""
    starting, stopping = asyncio.ensure_future(node.start()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((starting, stopping, node.failed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (starting, stopping):
            if not task.done():
                task.cancel()
        await asyncio.wait((starting, stopping))
    if starting.cancelled():
        if node.failed.done():
            node.failed.result()
        return False
    starting.result()
    return True


def warn_of_file_limit(open_files: int, limit: int) -> None:
    """Log a warning if the limit leaves too few descriptors for connections next to the files of partitions."""
    needed = open_files + CONNECTION_FILES
    if 0 <= limit < needed:
        log.warning("at most %d files may be open, the node needs up to %d: raise the limit (ulimit -n)", limit, needed)


async def _wait_for_end(node: Node, stop: asyncio.Event) -> int:
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((stopping, node.failed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopping
    if node.failed.done() and (error := node.failed.exception()) is not None:
        print(f"crabka: the node cannot continue: {error}", file=sys.stderr)
        return EXIT_NODE_FAILED
    log.info("stopping")
    return 0


def _format_if_new(runtime: Runtime, config: ServerConfig) -> None:
    """Format the new directories; they join the cluster of the others. Raises ConfigError for one in other use."""
    from crabka.quorum.formatting import format_storage, is_formatted
    from crabka.quorum.new_directory import require_new

    directories = dict.fromkeys((*config.log_dirs, config.metadata_log_dir))
    unformatted = [each for each in directories if not is_formatted(runtime.fs, each)]
    for directory in unformatted:
        require_new(runtime.fs, directory)
    if unformatted:
        written = format_storage(runtime, config, None, ignore_formatted=True)
        log.info("formatted %s", ", ".join(written))
