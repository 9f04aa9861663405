"""Formats a data directory if it is new, and starts a node on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.node.node import Node
from crabka.quorum.formatting import format_storage, is_formatted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.ports import Runtime


async def start_one_node(
    runtime: Runtime, data_dir: str, host: str, port: int, settings: Mapping[str, str]
) -> tuple[Node, list[str]]:
    """Start a combined node on its own; return it with warnings about its settings.

    Raises ConfigError, StorageError, CorruptDataError.
    """
    properties = {**one_node_properties(data_dir, host, port), **settings}
    config, warnings = ServerConfig.from_properties(properties)
    if not all(is_formatted(runtime.fs, directory) for directory in config.log_dirs):
        format_storage(runtime, config, None, ignore_formatted=True)
    node = Node(config, runtime)
    await node.start()
    return node, warnings
