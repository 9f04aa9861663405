"""A client's view of a cluster: one connection per broker and a cache of topics and leaders.

Owns the connections and metadata that producer, fetcher and admin use. Only requests for metadata are retried on
another node here; retries of other requests are the caller's decision.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from crabka.clients.cluster.backoff import Backoff
from crabka.clients.cluster.connection import BodyBuilder, Connection, ConnectionSettings
from crabka.clients.cluster.metadata import ClusterView, EndpointType, PartitionMetadata, TopicMetadata
from crabka.clients.cluster.metadata_sources import BrokerMetadata, MetadataSource
from crabka.clients.errors import ClientClosedError, ClientNetworkError, SessionEndedError
from crabka.errors import ConfigError, OperationError, WireError
from crabka.ids import TopicPartition
from crabka.ports import Runtime
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

Bootstrap = str | Sequence[str]
Address = tuple[str, int]

DEFAULT_PORT: Final = 9092
MAIN_CHANNEL: Final = "main"
# A request that outlasts this many sessions fails: a machine that slow makes no progress.
MAX_SESSIONS: Final = 5
_STALE_CODES: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.listener_not_found,
        ErrorCode.network_exception,
    }
)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of a client for the cluster as a whole."""

    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    metadata_max_age_ms: int = 300_000
    metadata_timeout_ms: int = 60_000
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 1_000
    allow_auto_topic_creation: bool = False


def means_stale_metadata(code: ErrorCode) -> bool:
    """Return whether an error says that the client asked the wrong broker."""
    return code in _STALE_CODES


def parse_bootstrap(bootstrap: Bootstrap) -> list[Address]:
    """Return (host, port) pairs of `host:port,host:port` or a list of such texts.

    Raises ConfigError.
    """
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    addresses = [_parse_address(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise ConfigError("no bootstrap server is given")
    return addresses


async def _in_session(
    connect: Callable[[], Awaitable[Connection]], api_key: ApiKey, build: BodyBuilder, timeout_ms: int | None = None
) -> Any:
    """Send a request; connect and authenticate again if the session ended because this client was late."""
    for _ in range(MAX_SESSIONS - 1):
        try:
            return await (await connect()).request(api_key, build, timeout_ms)
        except SessionEndedError:
            continue
    return await (await connect()).request(api_key, build, timeout_ms)


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


class Cluster:
    """Connections and metadata of one Kafka cluster. Use as an async context manager or call `close`.

    With `ControllerMetadata` the bootstrap addresses are those of controllers, and requests go to the active one.
    """

    def __init__(
        self,
        runtime: Runtime,
        bootstrap: Bootstrap,
        settings: ClusterSettings | None = None,
        source: MetadataSource | None = None,
    ) -> None:
        self.runtime = runtime
        self._source = source or BrokerMetadata()
        self.settings = settings or ClusterSettings()
        self._bootstrap = parse_bootstrap(bootstrap)
        self._connections: dict[tuple[Address, str], Connection] = {}
        self._connecting: dict[tuple[Address, str], asyncio.Lock] = {}
        self._refresh_lock = asyncio.Lock()
        self._refreshed_at_ms: dict[str, int] = {}
        self._is_closed = False
        self.view = ClusterView()

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    @property
    def endpoint_type(self) -> EndpointType:
        """Return the kind of the nodes."""
        return self._source.endpoint_type

    def backoff(self) -> Backoff:
        """Return a fresh backoff with the configured pauses."""
        return Backoff(self.runtime.rng, self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    async def connection(self, node_id: int, channel: str = MAIN_CHANNEL) -> Connection:
        """Return an open connection to a node. Raises ClientNetworkError, also for an unknown node.

        Brokers answer a connection in order, so long polls use a channel of their own: a second connection.
        """
        endpoint = self.view.brokers.get(node_id)
        if endpoint is None:
            await self.refresh(())
            endpoint = self.view.brokers.get(node_id)
        if endpoint is None:
            raise ClientNetworkError(f"broker {node_id} is not in the cluster")
        return await self._connect((endpoint.host, endpoint.port), channel)

    async def any_connection(self) -> Connection:
        """Return an open connection to any broker, or to the active controller if the nodes are controllers.

        Without an active controller it is any of them. One that has just died is still called active by the others;
        another controller answers with an error, and the caller retries. Raises the last failure when no node can be
        reached.
        """
        if self.endpoint_type is EndpointType.CONTROLLERS:
            await self.refresh(())
            if self.view.controller_id in self.view.brokers:
                with contextlib.suppress(ClientNetworkError):
                    return await self.connection(self.view.controller_id)
        for (_, channel), connection in self._connections.items():
            if connection.is_open and channel == MAIN_CHANNEL:
                return connection
        failure: Exception = ClientNetworkError("no node is known")
        for address in self._addresses():
            try:
                return await self._connect(address)
            except (ClientNetworkError, WireError) as error:
                failure = error
        raise failure

    async def request_any(self, api_key: ApiKey, build: BodyBuilder, timeout_ms: int | None = None) -> Any:
        """Send a request to any node and return the response."""
        return await _in_session(self.any_connection, api_key, build, timeout_ms)

    async def request(self, node_id: int, api_key: ApiKey, build: BodyBuilder, timeout_ms: int | None = None) -> Any:
        """Send a request to a node and return the response. Raises as `connection` and `Connection.request`."""
        return await _in_session(partial(self.connection, node_id), api_key, build, timeout_ms)

    async def refresh(self, topics: Sequence[str] | None) -> ClusterView:
        """Fetch metadata of the topics (None: of all) and merge it into the view.

        Raises ClientNetworkError when no node answers, ConfigError when controllers are asked for topics.
        """
        build = self._source.request(topics, create_topics=self.settings.allow_auto_topic_creation)
        async with self._refresh_lock:
            response = await self._request_metadata(build)
            self.view = self._source.view(self.view, response, all_topics=topics is None)
            now_ms = self.runtime.clock.monotonic_ms()
            for name in self.view.topics if topics is None else topics:
                self._refreshed_at_ms[name] = now_ms
            return self.view

    def invalidate(self, topic: str) -> None:
        """Remove a topic from the view, so that the next lookup asks a broker."""
        self.view = self.view.without_topic(topic)

    async def topic(self, name: str, *, partition: int | None = None, timeout_ms: int | None = None) -> TopicMetadata:
        """Return a topic's metadata; with `partition`, metadata that has this one.

        The lookup of an unknown topic is retried until the timeout (`metadata_timeout_ms` unless given), because
        brokers learn of a new topic at different times. With 0 ms there is one attempt. Raises OperationError with the
        broker's code, ClientNetworkError when no broker answers in time.
        """
        found = self._fresh_topic(name)
        if found is not None and (partition is None or partition in found.partitions):
            return found
        timeout_ms = self.settings.metadata_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.runtime.clock.monotonic_ms() + timeout_ms
        backoff = self.backoff()
        while True:
            failure = await self._look_up(name, partition)
            if failure is None:
                return self.view.topics[name]
            pause_ms = backoff.next_ms()
            may_appear = isinstance(failure, ClientNetworkError) or failure.retriable
            if not may_appear or self.runtime.clock.monotonic_ms() + pause_ms > deadline_ms:
                raise failure
            await asyncio.sleep(pause_ms / 1000)

    async def partition(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> PartitionMetadata:
        """Return a partition that has a leader; the timeout is that of `topic`.

        Raises OperationError(unknown_topic_or_partition) or, while there is no leader, (leader_not_available).
        """
        name, index = partition
        found = (await self.topic(name, partition=index, timeout_ms=timeout_ms)).partitions[index]
        if found.leader < 0:
            self.invalidate(name)
            found = (await self.topic(name, partition=index, timeout_ms=timeout_ms)).partitions[index]
        if found.leader < 0:
            raise OperationError(ErrorCode.leader_not_available, f"partition {partition} has no leader")
        return found

    async def _look_up(self, name: str, partition: int | None) -> OperationError | ClientNetworkError | None:
        """Fetch a topic; return why it is unknown, None if it is known."""
        try:
            await self.refresh([name])
        except ClientNetworkError as error:
            return error
        topic = self.view.topics.get(name)
        if topic is None:
            code = self.view.topic_errors.get(name, ErrorCode.unknown_topic_or_partition)
            return OperationError(code, f"topic {name}: {code.name}")
        if partition is not None and partition not in topic.partitions:
            unknown = TopicPartition(name, partition)
            return OperationError(ErrorCode.unknown_topic_or_partition, f"partition {unknown} does not exist")
        return None

    def _fresh_topic(self, name: str) -> TopicMetadata | None:
        age_ms = self.runtime.clock.monotonic_ms() - self._refreshed_at_ms.get(name, 0)
        return self.view.topics.get(name) if age_ms <= self.settings.metadata_max_age_ms else None

    async def _request_metadata(self, build: BodyBuilder) -> Any:
        failure: Exception = ClientNetworkError("no node is known")
        for address in self._addresses():
            try:
                return await _in_session(partial(self._connect, address), self._source.api_key, build)
            except (ClientNetworkError, WireError) as error:
                failure = error
        raise failure

    def _addresses(self) -> list[Address]:
        """Return all addresses, nodes with an open connection first, the bootstrap list last."""
        brokers = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        self.runtime.rng.shuffle(brokers)
        brokers.sort(key=lambda address: not self._has_open(address))
        return [*brokers, *(address for address in self._bootstrap if address not in brokers)]

    def _has_open(self, address: Address) -> bool:
        connection = self._connections.get((address, MAIN_CHANNEL))
        return connection is not None and connection.is_open

    async def _connect(self, address: Address, channel: str = MAIN_CHANNEL) -> Connection:
        slot = (address, channel)
        async with self._connecting.setdefault(slot, asyncio.Lock()):
            if self._is_closed:
                raise ClientClosedError("the client is closed")
            connection = self._connections.get(slot)
            if connection is not None and connection.is_open:
                return connection
            connection = await Connection.open(self.runtime.network, *address, self.settings.connection)
            if self._is_closed:
                connection.close()
                raise ClientClosedError("the client is closed")
            self._connections[slot] = connection
            return connection
