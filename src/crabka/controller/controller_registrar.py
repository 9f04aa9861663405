"""Registers this controller with the active one, also when the metadata holds an earlier incarnation (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.clients.security.security import ClientSecurity
from crabka.controller.decisions.registration import ControllerApplication, admit_controller
from crabka.errors import CrabkaError, InvariantError, OperationError
from crabka.metadata.features import CONTROLLER_REGISTRATION_LEVEL, SUPPORTED_FEATURES
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.controller.context import ControllerContext
    from crabka.metadata.cluster import Endpoint
    from crabka.protocol.apis import MessageTypes

logger = logging.getLogger(__name__)

# Between attempts: there may be no active controller yet.
RETRY_MS = 100
MAX_RETRY_MS = 5000
REQUEST_TIMEOUT_MS = 5000


class ControllerRegistrar:
    """Registers one controller for as long as it runs."""

    def __init__(self, context: ControllerContext, endpoints: Sequence[Endpoint], security: ClientSecurity) -> None:
        self._context = context
        self._security = security
        self._application = ControllerApplication(
            controller_id=context.node_id,
            incarnation_id=context.runtime.new_uuid(),
            endpoints=list(endpoints),
            features=SUPPORTED_FEATURES,
        )
        self._news = asyncio.Event()

    def on_metadata(self) -> None:
        """Check after a metadata change whether this controller must register."""
        if self._is_needed():
            self._news.set()

    async def run(self) -> None:
        """Register when needed, until cancelled."""
        pause_ms = RETRY_MS
        while True:
            if not self._is_needed():
                self._news.clear()
                await self._news.wait()
                pause_ms = RETRY_MS
                continue
            try:
                await self._register()
            except InvariantError:
                raise
            except (CrabkaError, OSError) as error:
                logger.debug("Controller %d is not registered yet: %s", self._application.controller_id, error)
            except Exception:
                logger.exception("Controller %d cannot be registered", self._application.controller_id)
            else:
                # The record is committed, but maybe not applied here yet.
                pause_ms = RETRY_MS
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, MAX_RETRY_MS)

    def _is_needed(self) -> bool:
        image = self._context.image
        if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return False
        registered = image.cluster.controllers.get(self._application.controller_id)
        return registered is None or registered.incarnation_id != self._application.incarnation_id

    async def _register(self) -> None:
        if self._context.quorum.is_active:
            await self._context.metadata_writer.submit(lambda image: admit_controller(image, self._application))
            return
        leader = self._context.quorum.leader
        if leader.leader_id is None or leader.leader_id == self._application.controller_id or not leader.endpoints:
            raise OperationError(ErrorCode.not_controller, "the active controller is unknown")
        endpoint = leader.endpoints[0]
        settings = ConnectionSettings(
            client_id=f"controller-{self._application.controller_id}-registration",
            connect_timeout_ms=REQUEST_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            security=self._security,
        )
        connection = await Connection.open(self._context.runtime.network, endpoint.host, endpoint.port, settings)
        try:
            response = await connection.request(ApiKey.CONTROLLER_REGISTRATION, self._request)
        finally:
            connection.close()
            await connection.wait_closed()
        if response.error_code is not ErrorCode.none:
            raise OperationError(response.error_code, response.error_message or "")

    def _request(self, types: MessageTypes) -> Any:
        application = self._application
        return types.message(
            controller_id=application.controller_id,
            incarnation_id=application.incarnation_id,
            zk_migration_ready=False,
            listeners=[types.new("Listener", **each._asdict()) for each in application.endpoints],
            features=[
                types.new(
                    "Feature",
                    name=name,
                    min_supported_version=levels.min_version,
                    max_supported_version=levels.max_version,
                )
                for name, levels in application.features.items()
            ],
        )
