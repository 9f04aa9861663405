"""Fetches from one leader, over a connection of its own, all partitions that follow it (Kafka's ReplicaFetcherThread).

One Fetch is on its way at a time, in an incremental session, so that an idle partition costs nothing. What an answer
means for a partition, its `FollowerFetching` decides and `FollowerChanges` carries out; here is only the way there and
back. A connection that fails is dialled again after `replica.fetch.backoff.ms`, or as soon as the leader registers.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_session import FollowerSession
from crabka.broker.replication.follower_state import (
    AppendFetched,
    AskLeaderRange,
    CutFollowerLog,
    FetchAnswered,
    FetchFailed,
    RestartLog,
    TakeLeaderOffsets,
)
from crabka.broker.replication.leader_range import ask_leader_ranges
from crabka.broker.replication.throttle import may_move
from crabka.clients.connection import Connection, ConnectionSettings, response_offset
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError, VersionMismatchError
from crabka.errors import CorruptDataError, OperationError, WireError
from crabka.log.leader_epochs import EpochEnd
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot.follower_fetch import (
    MIN_FOLLOWER_FETCH_VERSION,
    FollowerFetchRequest,
    pack_follower_fetch,
    read_fetched,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from crabka.broker.identity import BrokerIdentity
    from crabka.broker.replication.follower_changes import FollowerChanges
    from crabka.broker.replication.follower_session import FetchKey
    from crabka.broker.replication.follower_state import FollowerAction, FollowerEvent
    from crabka.broker.replication.throttle import ReplicationThrottle
    from crabka.config.server import ServerConfig
    from crabka.metadata.cluster import Endpoint
    from crabka.ports import Runtime
    from crabka.protocol.hot.follower_fetch import FetchedPartition

logger = logging.getLogger(__name__)


class BrokerAddress(NamedTuple):
    """Where other brokers reach a broker, and since which registration."""

    endpoint: Endpoint
    broker_epoch: int


class FetcherTools(NamedTuple):
    """What all fetchers of a node share."""

    runtime: Runtime
    identity: BrokerIdentity
    changes: FollowerChanges
    throttle: ReplicationThrottle
    config: Callable[[], ServerConfig]
    # None while a broker is not registered.
    address_of: Callable[[int], BrokerAddress | None]
    spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]]


class LeaderFetcher:
    """Follows one leader. All methods run on the loop."""

    def __init__(self, tools: FetcherTools, leader_id: int, fetcher_id: int = 0) -> None:
        self._tools = tools
        self._leader_id = leader_id
        self._fetcher_id = fetcher_id
        self._followed: dict[FetchKey, FollowedPartition] = {}
        self._session = FollowerSession()
        # Those whose position or readiness may have changed since the last request.
        self._touched: dict[FetchKey, None] = {}
        self._throttled: dict[FetchKey, None] = {}
        self._delayed: list[tuple[int, FetchKey]] = []
        self._out_of_range: list[FollowedPartition] = []
        self._cuts: list[tuple[FollowedPartition, CutFollowerLog]] = []
        self._work = asyncio.Event()
        self._registered = asyncio.Event()
        self._address: BrokerAddress | None = None
        self._last_reason = ""
        self._connection: Connection | None = None
        self._task: asyncio.Future[Any] | None = None

    def __len__(self) -> int:
        return len(self._followed)

    # -- whom to follow ------------------------------------------------------------------------------------------

    def add(self, followed: FollowedPartition) -> None:
        """Follow a partition, from the next request on."""
        self._followed[followed.key] = followed
        self._touch(followed)
        if self._task is None:
            self._task = self._tools.spawn(self._run())

    def remove(self, followed: FollowedPartition) -> None:
        """Follow a partition no longer; an answer or a change on its way does not count any more."""
        followed.is_current = False
        if self._followed.get(followed.key) is followed:
            del self._followed[followed.key]
            self._session.drop(followed.key)

    def stop(self) -> None:
        """Follow nobody any more."""
        for followed in list(self._followed.values()):
            self.remove(followed)
        if self._task is not None:
            self._task.cancel()

    def leader_changed(self) -> None:
        """Take note that the registration of the leader changed: the connection may lead to what is no more."""
        self._registered.set()
        if self._connection is not None and self._tools.address_of(self._leader_id) != self._address:
            self._connection.close()

    def _touch(self, followed: FollowedPartition) -> None:
        self._touched[followed.key] = None
        self._work.set()

    # -- the connection ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._registered.clear()
            try:
                await self._fetch_over_one_connection()
            except (ClientNetworkError, WireError, VersionMismatchError, OperationError) as error:
                self._warn(error)
            except CorruptDataError:
                logger.exception("Cannot append what broker %d sent", self._leader_id)
            self._tell_out_of_range(None)
            self._session.reset()
            await _wait(self._registered, self._tools.config().replica_fetch_backoff_ms)

    def _warn(self, error: Exception) -> None:
        """Tell why nothing is fetched, once for each reason in a row."""
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
            connect_timeout_ms=config.replica_socket_timeout_ms,
            request_timeout_ms=config.replica_socket_timeout_ms,
        )
        connection = await Connection.open(self._tools.runtime.network, endpoint.host, endpoint.port, settings)
        self._address, self._connection = address, connection
        try:
            version = connection.version_of(ApiKey.FETCH)
            if version < MIN_FOLLOWER_FETCH_VERSION:
                raise VersionMismatchError(f"broker {self._leader_id} offers Fetch {version}, which has no topic ids")
            while True:
                await self._fetch_once(connection, version)
        finally:
            self._connection = None
            connection.close()

    async def _fetch_once(self, connection: Connection, version: int) -> None:
        self._work.clear()
        wait_ms = self._choose()
        if self._out_of_range:
            await self._ask_ranges(connection)
        elif not len(self._session):
            await _wait(self._work, wait_ms)
        else:
            request = self._pack_request(version, wait_ms)
            self._take(await self._exchange(connection, version, request), version)

    async def _exchange(self, connection: Connection, version: int, request: bytes) -> memoryview:
        timeout_ms = self._tools.config().replica_socket_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return memoryview(await connection.post(ApiKey.FETCH, version, request))
        except TimeoutError as error:
            raise RequestTimeoutError(f"{connection.address} did not answer in {timeout_ms} ms") from error

    # -- asking --------------------------------------------------------------------------------------------------

    def _choose(self) -> int | None:
        """Bring the session up to date; return how long it can stay as it is, None for as long as nothing happens."""
        now_ms = self._tools.runtime.clock.monotonic_ms()
        while self._delayed and self._delayed[0][0] <= now_ms:
            self._touched[heapq.heappop(self._delayed)[1]] = None
        if self._throttled:
            self._touched.update(self._throttled)
            self._throttled.clear()
        max_bytes = self._tools.config().replica_fetch_max_bytes
        for key in self._touched:
            followed = self._followed.get(key)
            if followed is None:
                continue
            if not followed.fetching.is_ready(now_ms):
                self._session.drop(key)
                until_ms = followed.fetching.delayed_until_ms
                if until_ms is not None:
                    heapq.heappush(self._delayed, (until_ms, key))
            elif not self._may_fetch(followed, now_ms):
                self._session.drop(key)
                self._throttled[key] = None
            else:
                self._session.want(key, followed.pack(max_bytes))
        self._touched.clear()
        waits = [self._delayed[0][0] - now_ms] if self._delayed else []
        if self._throttled:
            waits.append(self._tools.config().replica_fetch_backoff_ms)
        return min(waits, default=None)

    def _may_fetch(self, followed: FollowedPartition, now_ms: int) -> bool:
        throttle = self._tools.throttle
        if throttle.bytes_per_second is None:
            return True
        is_throttled = followed.is_throttled(self._tools.identity.node_id)
        return may_move(throttle, is_throttled=is_throttled, is_in_sync=followed.lag == 0, now_ms=now_ms)

    def _pack_request(self, version: int, wait_ms: int | None) -> bytes:
        config, identity = self._tools.config(), self._tools.identity
        max_wait_ms = config.replica_fetch_wait_max_ms
        session_id, session_epoch, topics, forgotten = self._session.next_request()
        self._session.sent()
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
        was_full = self._session.is_full
        self._session.answered(body.error_code, body.session_id)
        if body.error_code:
            if was_full:
                raise OperationError(ErrorCode(body.error_code), f"Fetch: {ErrorCode(body.error_code).name}")
            return
        now_ms = self._tools.runtime.clock.monotonic_ms()
        followed_by = self._followed
        for topic_id, rows in body.topics:
            for row in rows:
                followed = followed_by.get((topic_id, row.partition))
                if followed is not None:
                    self._answered(followed, row, now_ms)
        self._start_cuts()

    def _answered(self, followed: FollowedPartition, row: FetchedPartition, now_ms: int) -> None:
        if not self._tools.changes.counts(followed):
            # Its log dir has failed.
            self.remove(followed)
            return
        _, error_code, high_watermark, log_start_offset, records, diverging = row
        if followed.asked is None:
            return
        answer = FetchAnswered(
            asked=followed.asked,
            error_code=ErrorCode(error_code),
            diverging=None if diverging is None else EpochEnd(*diverging),
            has_records=len(records) > 0,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
        )
        if error_code:
            logger.info(
                "Broker %d answers %s for %s-%d",
                self._leader_id,
                answer.error_code.name,
                followed.partition.topic,
                followed.partition.index,
            )
        self._step(followed, answer, records, now_ms)
        if not error_code and diverging is None:
            followed.lag = max(0, high_watermark - followed.partition.log.log_end_offset)

    def _step(self, followed: FollowedPartition, event: FollowerEvent, records: memoryview | None, now_ms: int) -> None:
        partition = followed.partition
        for action in followed.fetching.step(event, partition.log, now_ms):
            self._carry_out(followed, action, records, now_ms)
        self._touch(followed)

    def _carry_out(
        self, followed: FollowedPartition, action: FollowerAction, records: memoryview | None, now_ms: int
    ) -> None:
        changes = self._tools.changes
        match action:
            case AppendFetched():
                if records is not None:
                    self._append(followed, action, records, now_ms)
            case TakeLeaderOffsets(high_watermark, log_start_offset):
                changes.take_offsets(followed.partition, high_watermark, log_start_offset, 0)
            case CutFollowerLog():
                self._cuts.append((followed, action))
            case RestartLog():
                self._tools.spawn(self._finish(followed, changes.restart(followed, action)))
            case AskLeaderRange():
                self._out_of_range.append(followed)

    def _append(self, followed: FollowedPartition, action: AppendFetched, records: memoryview, now_ms: int) -> None:
        tools = self._tools
        if tools.throttle.bytes_per_second is not None and followed.is_throttled(tools.identity.node_id):
            tools.throttle.record(len(records), now_ms)
        if tools.changes.must_wait(followed.partition):
            tools.spawn(self._finish(followed, tools.changes.append_in_turn(followed, records, action)))
        else:
            self._step(followed, tools.changes.append(followed, records, action), None, now_ms)

    async def _finish(self, followed: FollowedPartition, change: Coroutine[Any, Any, FollowerEvent | None]) -> None:
        """Wait for a change of a log and go on with the partition."""
        event = await change
        if event is not None and followed.is_current:
            self._step(followed, event, None, self._tools.runtime.clock.monotonic_ms())

    def _start_cuts(self) -> None:
        cuts, self._cuts = self._cuts, []
        if cuts:
            self._tools.spawn(self._cut(cuts))

    async def _cut(self, cuts: list[tuple[FollowedPartition, CutFollowerLog]]) -> None:
        for followed, event in await self._tools.changes.cut(cuts):
            if followed.is_current:
                self._step(followed, event, None, self._tools.runtime.clock.monotonic_ms())

    # -- out of range --------------------------------------------------------------------------------------------

    async def _ask_ranges(self, connection: Connection) -> None:
        self._tell_out_of_range(
            await ask_leader_ranges(connection, self._tools.identity.node_id, list(self._out_of_range))
        )

    def _tell_out_of_range(self, ranges: Mapping[FollowedPartition, FollowerEvent] | None) -> None:
        waiting, self._out_of_range = self._out_of_range, []
        now_ms = self._tools.runtime.clock.monotonic_ms()
        for followed in waiting:
            if followed.is_current:
                event = FetchFailed() if ranges is None else ranges.get(followed, FetchFailed())
                self._step(followed, event, None, now_ms)
        self._start_cuts()


async def _wait(event: asyncio.Event, timeout_ms: int | None) -> None:
    try:
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return
