"""The controller role of a node: the requests that it serves, and its duties while it is the active controller."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.controller.api_table import TABLE
from crabka.controller.broker_watch import BrokerWatch
from crabka.controller.context import ControllerContext
from crabka.controller.controller_registrar import ControllerRegistrar
from crabka.controller.decisions.control_view import ControllerRules
from crabka.controller.decisions.sessions import BrokerIncarnation, BrokerSessions
from crabka.controller.duties import duties_of_term, fence_incarnation, keep_up
from crabka.controller.guards.table import GUARDS
from crabka.controller.metadata_writer import MetadataWriter
from crabka.controller.mutation_quotas import MutationQuotas
from crabka.errors import OperationError
from crabka.metadata.configs import ConfigResourceType
from crabka.net.dispatch import ConnectionInfo
from crabka.security.quotas.windows import WindowSettings
from crabka.serving.access.guard import guarded_load
from crabka.serving.config_view import EffectiveConfigs
from crabka.serving.dispatch import Dispatcher
from crabka.serving.metrics import NodeMetrics
from crabka.serving.refusals import refuse
from crabka.serving.request import OWN_CONNECTION, Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from crabka.config.server import ServerConfig
    from crabka.errors import InvariantError
    from crabka.metadata.cluster import Endpoint
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime, Spawn
    from crabka.quorum.raft.quorum import RaftQuorum
    from crabka.serving.access.access import Access
    from crabka.serving.api_table import Handler


class ControllerService:
    """One controller. The node owns the quorum and the listener.

    Frames of the listener go to `dispatcher` once it is started, ends of its connections to `connection_closed`.
    """

    def __init__(
        self,
        config: ServerConfig,
        runtime: Runtime,
        quorum: RaftQuorum,
        *,
        cluster_id: str,
        spawn: Spawn,
        serve: Spawn,
        on_broken_invariant: Callable[[InvariantError], None],
        access: Access | None = None,
        security: ClientSecurity = UNPROTECTED,
    ) -> None:
        """`spawn` runs duties, `serve` runs requests, whose connections report failures.

        `security` is that of connections to other controllers.
        """
        load = guarded_load(TABLE, GUARDS, access, refuse)
        self._security = security
        self._quorum = quorum
        self._spawn = spawn
        self._configs = EffectiveConfigs(config)
        self._handlers: dict[int, Handler] = {}
        self._registrar: ControllerRegistrar | None = None
        self._background: list[asyncio.Future[Any]] = []
        # Tasks of the current term as active controller.
        self._term: list[asyncio.Future[Any]] = []
        self._closed = False
        self.context = ControllerContext(
            static_config=config,
            config=self._configs.server(quorum.image),
            rules=ControllerRules.of(config),
            runtime=runtime,
            cluster_id=cluster_id,
            quorum=quorum,
            metadata_writer=MetadataWriter(quorum),
            sessions=BrokerSessions(config.broker_session_timeout_ms),
            watch=BrokerWatch(
                runtime,
                endpoint_of=self._endpoint_of,
                fence=self._fence_early,
                spawn=spawn,
                enabled=config.crabka_fast_failure_detection_enable,
            ),
            metrics=NodeMetrics(),
            mutation_quotas=MutationQuotas(
                runtime.clock,
                WindowSettings(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000),
            ),
            spawn=serve,
            on_broken_invariant=on_broken_invariant,
            load=load,
            access=access,
        )
        self.dispatcher = Dispatcher(self.context, TABLE, refuse=refuse, load=load)
        self.context.mutation_quotas.take(quorum.image.client_quotas.entities)
        quorum.subscribe(self._on_metadata)

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._quorum.is_active

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Serve, and register this controller, reachable at `endpoints`, with the active one in the background."""
        self._registrar = ControllerRegistrar(self.context, endpoints, self._security)
        self._background.append(self._spawn(self._registrar.run()))
        self._quorum.on_leadership(self._begin_term, self._end_term)

    async def close(self) -> None:
        """Stop all duties; the quorum is closed after this."""
        self._closed = True
        self._end_term()
        for task in self._background:
            task.cancel()
        self._background = []

    async def answer(self, api_key: int, version: int, body: Any) -> Any:
        """Answer a request of the node's own broker; return the body of the response."""
        handler = self._handlers.get(api_key)
        if handler is None:
            handler = self._handlers[api_key] = TABLE.load(api_key)
        request = Request(api_key, version, 0, None, body, OWN_CONNECTION)
        try:
            answer = handler.handle(self.context, request)
            return await answer if isawaitable(answer) else answer
        except OperationError as error:
            return refuse(request, error)

    def connection_closed(self, connection: ConnectionInfo) -> None:
        """Note that a connection to the controller listener ended: the broker's process may be gone."""
        self.context.watch.connection_closed(connection)

    def _begin_term(self, _epoch: int) -> None:
        if self._closed:
            return
        context = self.context
        context.sessions.activate(context.image, context.runtime.clock.monotonic_ms())
        brokers = context.image.cluster.brokers.values()
        context.watch.activate(BrokerIncarnation(each.broker_id, each.epoch) for each in brokers if not each.fenced)
        self._term = [self._spawn(keep_up(context, duty)) for duty in duties_of_term()]

    def _end_term(self) -> None:
        self.context.watch.deactivate()
        for task in self._term:
            task.cancel()
        self._term = []

    def _on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        self.context.mutation_quotas.take(image.client_quotas.entities)
        if any(resource.resource_type == ConfigResourceType.BROKER for resource in delta.configs_changed):
            self.context.config = self._configs.server(image)
        if self._registrar is not None:
            self._registrar.on_metadata()
        for broker_id in delta.brokers_changed:
            before, after = delta.image.cluster.brokers.get(broker_id), image.cluster.brokers.get(broker_id)
            if before is not None and (after is None or after.fenced or after.epoch != before.epoch):
                self.context.watch.gone(BrokerIncarnation(broker_id, before.epoch))

    def _endpoint_of(self, incarnation: BrokerIncarnation) -> Endpoint | None:
        """Return where other brokers reach this one."""
        broker = self.context.image.cluster.brokers.get(incarnation.broker_id)
        if broker is None or broker.epoch != incarnation.epoch:
            return None
        name = self.context.static_config.inter_broker_listener_name
        return broker.endpoint(name) or next(iter(broker.endpoints), None)

    async def _fence_early(self, incarnation: BrokerIncarnation) -> None:
        await fence_incarnation(self.context, incarnation, "its process is gone: it refuses connections")
