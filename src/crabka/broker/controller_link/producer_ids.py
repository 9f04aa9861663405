"""Producer ids for this broker, taken from blocks that the controller hands out (AllocateProducerIds).

The controller records a block before it gives it away, so that no id is given twice, whatever happens; what is left
of a block at a stop is never used. The next block is asked for before the current one is used up, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.errors import CrabkaError, OperationError
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.ports import Spawn
    from crabka.protocol.apis import MessageTypes

logger = logging.getLogger(__name__)

# The part of a block after whose use the next one is asked for.
PREFETCH_PERCENT: Final = 90
# A client that gets no id in this time gets a retriable error.
MAX_WAIT_MS: Final = 1_000
_LAST_ID: Final = 2**63 - 1


class _Block(NamedTuple):
    first: int
    end: int


class ProducerIdAllocator:
    """Gives out ids one by one."""

    def __init__(
        self,
        controller: ControllerRequests,
        identity: BrokerIdentity,
        *,
        spawn: Spawn,
    ) -> None:
        self._controller = controller
        self._identity = identity
        self._spawn = spawn
        self._next = 0
        self._end = 0
        self._prefetch_at = -1
        self._following: _Block | None = None
        # The request for the block that follows; there is one at a time.
        self._asking: asyncio.Future[bool] | None = None

    async def allocate(self) -> int:
        """Return a producer id that was never given before.

        Raises OperationError: COORDINATOR_LOAD_IN_PROGRESS while the controller gives none; old clients would not
        try again after REQUEST_TIMED_OUT.
        """
        while self._next == self._end:
            if self._following is None:
                await self._wait_for_block()
            self._begin_following()
        self._next += 1
        if self._next - 1 == self._prefetch_at:
            self._ask()
        return self._next - 1

    def _begin_following(self) -> None:
        block, self._following = self._following, None
        # Another request that waited may have been faster, and may have used up the block.
        if block is not None:
            self._next, self._end = block
            self._prefetch_at = block.first + (block.end - block.first) * PREFETCH_PERCENT // 100

    async def _wait_for_block(self) -> None:
        has_block = False
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT_MS / 1000):
                has_block = await asyncio.shield(self._ask())
        if not has_block:
            raise OperationError(
                ErrorCode.coordinator_load_in_progress, "Producer ID block is full. Waiting for next block"
            )

    def _ask(self) -> asyncio.Future[bool]:
        if self._asking is None:
            self._asking = self._spawn(self._fetch_block())
        return self._asking

    async def _fetch_block(self) -> bool:
        """Return whether there is a block now."""
        try:
            self._following = await self._next_block()
        except CrabkaError as error:
            logger.warning("There is no block of producer ids: %s", error)
            return False
        finally:
            self._asking = None
        return True

    async def _next_block(self) -> _Block:
        answer = await self._controller.request(ApiKey.ALLOCATE_PRODUCER_IDS, self._request)
        if answer.error_code is not ErrorCode.none:
            raise OperationError(answer.error_code)
        first, count = answer.producer_id_start, answer.producer_id_len
        if first < self._end or count <= 0 or first > _LAST_ID - count:
            raise OperationError(ErrorCode.unknown_server_error, f"The block {first}+{count} cannot be used")
        return _Block(first, first + count)

    def _request(self, types: MessageTypes) -> Any:
        return types.message(broker_id=self._identity.node_id, broker_epoch=self._identity.broker_epoch)
