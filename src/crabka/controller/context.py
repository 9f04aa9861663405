"""What a handler of the controller role may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.config.server import ServerConfig
    from crabka.controller.broker_watch import BrokerWatch
    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.controller.decisions.sessions import BrokerSessions
    from crabka.controller.metadata_writer import MetadataWriter
    from crabka.controller.mutation_quotas import MutationQuotas
    from crabka.errors import InvariantError
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn
    from crabka.quorum.raft.quorum import RaftQuorum
    from crabka.serving.access.access import Access
    from crabka.serving.api_table import Handler
    from crabka.serving.metrics import NodeMetrics


@dataclass(slots=True)
class ControllerContext:
    """Everything that handlers of the controller role share. One per node, owned by the node's loop."""

    # Settings of the node's file alone, and with the dynamic ones over them.
    static_config: ServerConfig
    config: ServerConfig
    rules: ControllerRules
    runtime: Runtime
    cluster_id: str
    quorum: RaftQuorum
    metadata_writer: MetadataWriter
    sessions: BrokerSessions
    watch: BrokerWatch
    metrics: NodeMetrics
    mutation_quotas: MutationQuotas
    # Runs a coroutine as a task of the node, so that no task outlives it.
    spawn: Spawn
    # Stops the node: its state is inconsistent, so it must not answer any more requests.
    on_broken_invariant: Callable[[InvariantError], None]
    # Handlers by their API, with the checks of an authorizer before them if there is one.
    load: Callable[[int], Handler]
    # What clients may do; None on a node without an authorizer.
    access: Access | None = None

    @property
    def image(self) -> MetadataImage:
        """Return the newest metadata that is committed and applied."""
        return self.quorum.image

    @property
    def node_id(self) -> int:
        """Return this node's id."""
        return self.config.node_id
