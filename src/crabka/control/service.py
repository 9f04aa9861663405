"""The controller role of a node: what it serves, and what it does by itself while it is the active controller."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from crabka.control.api_table import TABLE
from crabka.control.config_view import EffectiveConfigs
from crabka.control.context import ControlContext
from crabka.control.controller_rules import controller_rules
from crabka.control.metadata_writer import MetadataWriter
from crabka.control.refusals import refuse
from crabka.controller.sessions import BrokerSessions
from crabka.errors import OperationError
from crabka.metadata.configs import ConfigResourceType
from crabka.net.connection import ConnectionInfo
from crabka.serving.dispatch import Dispatcher
from crabka.serving.metrics import NodeMetrics
from crabka.serving.request import Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from crabka.config.server import ServerConfig
    from crabka.errors import InvariantError
    from crabka.metadata.delta import MetadataDelta
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime
    from crabka.quorum.raft_quorum import RaftQuorum
    from crabka.serving.api_table import Handler

# The node's own broker asks without a socket.
_OWN_CONNECTION = ConnectionInfo(0, "", "local", 0)


class ControllerService:
    """One controller. The node owns the quorum and the listener; frames of the listener go to `dispatcher`."""

    def __init__(
        self,
        config: ServerConfig,
        runtime: Runtime,
        quorum: RaftQuorum,
        *,
        cluster_id: str,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]],
        on_broken_invariant: Callable[[InvariantError], None],
    ) -> None:
        self._quorum = quorum
        self._configs = EffectiveConfigs(config)
        self._handlers: dict[int, Handler] = {}
        self.context = ControlContext(
            static_config=config,
            config=self._configs.server(quorum.image),
            rules=controller_rules(config),
            runtime=runtime,
            cluster_id=cluster_id,
            quorum=quorum,
            metadata_writer=MetadataWriter(quorum),
            sessions=BrokerSessions(config.broker_session_timeout_ms),
            metrics=NodeMetrics(),
            spawn=spawn,
            on_broken_invariant=on_broken_invariant,
        )
        self.dispatcher = Dispatcher(self.context, TABLE, refuse=refuse)
        quorum.subscribe(self._on_metadata)

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._quorum.is_active

    async def answer(self, api_key: int, version: int, body: Any) -> Any:
        """Answer a request of the node's own broker; return the body of the response."""
        handler = self._handlers.get(api_key)
        if handler is None:
            handler = self._handlers[api_key] = TABLE.load(api_key)
        request = Request(api_key, version, 0, None, body, _OWN_CONNECTION)
        try:
            answer = handler.handle(self.context, request)
            return await answer if isawaitable(answer) else answer
        except OperationError as error:
            return refuse(request, error)

    def _on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.resource_type == ConfigResourceType.BROKER for resource in delta.configs_changed):
            self.context.config = self._configs.server(image)
