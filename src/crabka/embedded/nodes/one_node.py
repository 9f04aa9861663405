"""From settings to a node that can be started: the properties of a node on its own, and a formatted directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.config.presets import one_node_properties
from crabka.embedded.settings import check_settings, refuse_quorum
from crabka.node.node import Node
from crabka.quorum.formatting import format_storage, is_formatted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.config.server import ServerConfig
    from crabka.ports import Runtime
    from crabka.quorum.log.voters import VoterNode


def one_node_config(data_dir: str, host: str, port: int, settings: Mapping[str, str]) -> ServerConfig:
    """Return the config of a node that is a cluster of its own. Raises ConfigError."""
    refuse_quorum(settings, "a Broker is a cluster of one node; for several use crabka.embedded.Cluster(nodes=3)")
    return check_settings({**one_node_properties(data_dir, host, port), **settings}, settings)


def open_node(
    runtime: Runtime, config: ServerConfig, *, cluster_id: str | None = None, voters: Sequence[VoterNode] = ()
) -> Node:
    """Return a node that is not started yet; its directories are formatted if they are new.

    Without voters it is the only one. Raises ConfigError, StorageError, CorruptDataError.
    """
    if not all(is_formatted(runtime.fs, directory) for directory in (*config.log_dirs, config.metadata_log_dir)):
        format_storage(runtime, config, cluster_id, initial_controllers=voters, ignore_formatted=True)
    return Node(config, runtime)
