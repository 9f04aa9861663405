"""Fetches from one leader, over a connection of its own, all partitions that follow it (Kafka's ReplicaFetcherThread).

One Fetch is on its way at a time, in an incremental session. A connection that fails is dialled again after
`replica.fetch.backoff.ms`, or as soon as the leader registers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from crabka.broker.replication.fetch_list import FetchList, known_error
from crabka.broker.replication.leader_range import ask_leader_ranges, ask_leader_tiers
from crabka.clients.cluster.connection import Connection, ConnectionSettings, response_offset
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError, VersionMismatchError
from crabka.errors import InvariantError, OperationError, WireError
from crabka.protocol.apis import ApiKey
from crabka.protocol.hot.follower_fetch import (
    MIN_FOLLOWER_FETCH_VERSION,
    FollowerFetchRequest,
    pack_follower_fetch,
    read_fetched,
)

if TYPE_CHECKING:
    from crabka.broker.replication.fetch_list import BrokerAddress, FetcherTools
    from crabka.broker.replication.followed import FollowedPartition

logger = logging.getLogger(__name__)

# A partition that comes while the leader holds an answer back would wait for that: the fetch is given up instead, after
# a moment in which more may come, if that was not done just before and if a full request does not cost much.
_HURRY_AFTER_MS = 10
_HURRY_INTERVAL_MS = 1000
_MAX_HURRY_PARTITIONS = 1000
_MAX_CONNECT_MS = 10_000


class LeaderFetcher:
    """Follows one leader. All methods run on the loop."""

    def __init__(self, tools: FetcherTools, leader_id: int, fetcher_id: int = 0) -> None:
        self._tools = tools
        self._leader_id = leader_id
        self._fetcher_id = fetcher_id
        self._work = asyncio.Event()
        self._list = FetchList(tools, self._work.set)
        self._registered = asyncio.Event()
        self._address: BrokerAddress | None = None
        self._last_reason = ""
        # Number of the fetch that is on its way; 0 while none is.
        self._fetch_number = self._waiting_for = 0
        self._hurried_ms = -_HURRY_INTERVAL_MS
        self._is_hurried = False
        self._hurry_timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None
        self._task: asyncio.Future[Any] | None = None

    def __len__(self) -> int:
        return len(self._list)

    # -- whom to follow ------------------------------------------------------------------------------------------

    def add(self, followed: FollowedPartition) -> None:
        """Follow a partition, from the next request on."""
        self._list.add(followed)
        if self._task is None:
            self._task = self._tools.spawn(self._run())
        elif self._waiting_for and self._hurry_timer is None:
            loop = asyncio.get_running_loop()
            self._hurry_timer = loop.call_later(_HURRY_AFTER_MS / 1000, self._hurry, self._waiting_for)

    def _hurry(self, fetch_number: int) -> None:
        """Give up a fetch that the leader has nothing to answer to, for the sake of partitions that just came."""
        self._hurry_timer = None
        now_ms = self._tools.runtime.clock.monotonic_ms()
        is_late = self._waiting_for == fetch_number and now_ms - self._hurried_ms >= _HURRY_INTERVAL_MS
        if is_late and self._connection is not None and len(self._list.session) <= _MAX_HURRY_PARTITIONS:
            self._hurried_ms, self._is_hurried = now_ms, True
            self._connection.close()

    def remove(self, followed: FollowedPartition) -> None:
        """Follow a partition no longer; an answer or a change on its way does not count any more."""
        self._list.remove(followed)

    def stop(self) -> None:
        """Follow no partition any more."""
        self._list.clear()
        if self._task is not None:
            self._task.cancel()
        if self._hurry_timer is not None:
            self._hurry_timer.cancel()

    async def wait_stopped(self) -> None:
        """Return once nothing runs any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def leader_changed(self) -> None:
        """Take note that the registration of the leader changed: the connection may lead to what is no more."""
        self._registered.set()
        if self._connection is not None and self._tools.address_of(self._leader_id) != self._address:
            self._connection.close()

    # -- the connection ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._registered.clear()
            try:
                await self._fetch_over_one_connection()
            except (ClientNetworkError, WireError, VersionMismatchError, OperationError) as error:
                if not self._is_hurried:
                    self._warn(error)
            except InvariantError:
                raise
            except Exception:
                # Without a restart nothing would show that the follower has stopped.
                logger.exception("Fetching from broker %d failed", self._leader_id)
            self._list.give_up_asking()
            self._list.session.reset()
            if not self._is_hurried:
                await _wait(self._registered, self._tools.config().replica_fetch_backoff_ms)
            self._is_hurried = False

    def _warn(self, error: Exception) -> None:
        """Log why nothing is fetched, once for each reason in a row."""
        reason = str(error)
        if reason != self._last_reason:
            logger.warning("Cannot fetch from broker %d: %s", self._leader_id, reason)
        self._last_reason = reason

    async def _fetch_over_one_connection(self) -> None:
        address = self._tools.address_of(self._leader_id)
        if address is None:
            raise ClientNetworkError(f"broker {self._leader_id} is not registered with a listener for brokers")
        endpoint = address.endpoint
        config = self._tools.config()
        settings = ConnectionSettings(
            client_id=f"broker-{self._tools.identity.node_id}-fetcher-{self._fetcher_id}",
            connect_timeout_ms=min(config.replica_socket_timeout_ms, _MAX_CONNECT_MS),
            request_timeout_ms=config.replica_socket_timeout_ms,
            security=self._tools.security,
        )
        connection = await Connection.open(self._tools.runtime.network, endpoint.host, endpoint.port, settings)
        self._address, self._connection = address, connection
        try:
            if self._tools.address_of(self._leader_id) != address:
                raise ClientNetworkError(f"broker {self._leader_id} registered anew while it was dialled")
            version = connection.version_of(ApiKey.FETCH)
            if version < MIN_FOLLOWER_FETCH_VERSION:
                raise VersionMismatchError(f"broker {self._leader_id} offers Fetch {version}, which has no topic ids")
            while True:
                if connection.must_renew:
                    await connection.renew()
                await self._fetch_once(connection, version)
        finally:
            self._connection = None
            connection.close()

    async def _fetch_once(self, connection: Connection, version: int) -> None:
        self._work.clear()
        wait_ms = self._list.choose()
        if self._list.out_of_range:
            await self._ask_ranges(connection)
        elif self._list.moved_to_tier:
            await self._ask_tiers(connection)
        elif not len(self._list.session):
            await _wait(self._work, wait_ms)
        else:
            request = self._pack_request(version, wait_ms)
            self._take(await self._exchange(connection, version, request), version)

    async def _exchange(self, connection: Connection, version: int, request: bytes) -> memoryview:
        timeout_ms = self._tools.config().replica_socket_timeout_ms
        self._fetch_number += 1
        self._waiting_for = self._fetch_number
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return memoryview(await connection.post(ApiKey.FETCH, version, request))
        except TimeoutError as error:
            raise RequestTimeoutError(f"{connection.address} did not answer in {timeout_ms} ms") from error
        finally:
            self._waiting_for = 0

    # -- asking --------------------------------------------------------------------------------------------------

    def _pack_request(self, version: int, wait_ms: int | None) -> bytes:
        config, identity = self._tools.config(), self._tools.identity
        max_wait_ms = config.replica_fetch_wait_max_ms
        session_id, session_epoch, topics, forgotten = self._list.session.next_request()
        self._list.session.sent()
        request = FollowerFetchRequest(
            identity.node_id,
            identity.broker_epoch,
            # Who is delayed must not wait for the others' answer as well.
            max_wait_ms if wait_ms is None else min(wait_ms, max_wait_ms),
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            session_id,
            session_epoch,
        )
        return pack_follower_fetch(version, request, topics, forgotten)

    # -- answers -------------------------------------------------------------------------------------------------

    def _take(self, frame: memoryview, version: int) -> None:
        body = read_fetched(frame, response_offset(ApiKey.FETCH, version, frame))
        was_full = self._list.session.is_full
        self._list.session.answered(body.error_code, body.session_id)
        if body.error_code:
            if was_full:
                error_code = known_error(body.error_code)
                raise OperationError(error_code, f"it answers {error_code.name}")
            return
        self._last_reason = ""
        self._list.take(body)

    async def _ask_ranges(self, connection: Connection) -> None:
        out_of_range = list(self._list.out_of_range)
        self._list.pass_ranges(await ask_leader_ranges(connection, self._tools.identity.node_id, out_of_range))

    async def _ask_tiers(self, connection: Connection) -> None:
        moved = list(self._list.moved_to_tier)
        skips_tiered = self._tools.config().follower_fetch_last_tiered_offset_enable
        node_id = self._tools.identity.node_id
        self._list.pass_tiers(await ask_leader_tiers(connection, node_id, moved, skips_tiered=skips_tiered))


async def _wait(event: asyncio.Event, timeout_ms: int | None) -> None:
    try:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return
