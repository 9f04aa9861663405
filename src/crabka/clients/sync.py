"""The clients without async: a loop in a thread of its own, and blocking calls.

For scripts, tests and command-line tools. Each object owns its loop thread and its cluster; leave it with `close` or
as a context manager. Calls may come from any thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from crabka.clients.accumulator import RecordMetadata
from crabka.clients.admin import Admin
from crabka.clients.admin_types import (
    ActiveProducer,
    ConfigChange,
    ConfigOwner,
    ConfigValue,
    CreatedTopic,
    NewTopic,
)
from crabka.clients.cluster import Bootstrap, Cluster, ClusterSettings
from crabka.clients.controller_cluster import ControllerCluster
from crabka.clients.fetcher import FetchedRecord, Fetcher, FetcherSettings
from crabka.clients.group_types import GroupDescription, GroupListing, GroupOffset
from crabka.clients.metadata import TopicMetadata
from crabka.clients.offsets import OffsetAndTimestamp
from crabka.clients.producer import Producer, ProducerSettings
from crabka.clients.sync_cluster import SyncClusterAdmin
from crabka.clients.transaction_messages import GroupMembership, OffsetToCommit
from crabka.ids import TopicPartition
from crabka.records.record import Headers
from crabka.runtime import new_event_loop, real_runtime

T = TypeVar("T")
ClientT = TypeVar("ClientT")


class LoopThread:
    """An event loop that runs in a daemon thread until closed."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result; an interrupt cancels it."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and join the thread. Closing twice is allowed."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _SyncClient(Generic[ClientT]):
    """Loop thread, runtime and cluster around one async client."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        cluster_settings: ClusterSettings | None,
        make: Callable[[Cluster], ClientT],
        cluster_class: type[Cluster] = Cluster,
    ) -> None:
        self._runtime = real_runtime()
        self._thread = LoopThread("crabka-client")
        self._is_closed = False

        async def start() -> tuple[Cluster, ClientT]:
            cluster = cluster_class(self._runtime, bootstrap, cluster_settings)
            return cluster, make(cluster)

        try:
            self._cluster, self._client = self._thread.run(start())
        except BaseException:
            self._stop_threads()
            raise

    def close(self) -> None:
        """Close the client and its connections. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._thread.run(self._close_client())
        finally:
            self._stop_threads()

    async def _close_client(self) -> None:
        try:
            await self._close_inner()
        finally:
            await self._cluster.close()

    async def _close_inner(self) -> None:
        """Close the async client, where it has something to close."""

    def _stop_threads(self) -> None:
        self._thread.close()
        self._runtime.threads.close()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class SyncAdmin(SyncClusterAdmin, _SyncClient[Admin]):
    """`Admin` with blocking calls; see there for what each does and raises.

    With `of_controllers` the bootstrap addresses are those of controllers, and only they are talked to (KIP-919).
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        timeout_ms: int = 30_000,
        cluster_settings: ClusterSettings | None = None,
        of_controllers: bool = False,
    ) -> None:
        cluster_class = ControllerCluster if of_controllers else Cluster
        super().__init__(bootstrap, cluster_settings, lambda cluster: Admin(cluster, timeout_ms), cluster_class)

    def __enter__(self) -> SyncAdmin:
        return self

    def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics."""
        return self._thread.run(self._client.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics."""
        self._thread.run(self._client.delete_topics(names))

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Raise the number of partitions."""
        self._thread.run(self._client.create_partitions(counts))

    def list_topics(self) -> dict[str, TopicMetadata]:
        """Return all topics."""
        return self._thread.run(self._client.list_topics())

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Return the metadata of topics."""
        return self._thread.run(self._client.describe_topics(names))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records before offsets."""
        return self._thread.run(self._client.delete_records(before))

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by timestamp or special position."""
        return self._thread.run(self._client.list_offsets(timestamps, read_committed=read_committed))

    def describe_configs(
        self, resource: ConfigOwner, names: Sequence[str] | None = None, *, documentation: bool = False
    ) -> dict[str, ConfigValue]:
        """Return the configs of a resource."""
        return self._thread.run(self._client.describe_configs(resource, names, documentation=documentation))

    def alter_configs(
        self, resource: ConfigOwner, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change configs of a resource."""
        self._thread.run(self._client.alter_configs(resource, list(changes), validate_only=validate_only))

    def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the producers that partitions remember."""
        return self._thread.run(self._client.describe_producers(list(partitions)))

    def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """Return the groups of all brokers."""
        return self._thread.run(self._client.list_groups(states=states, types=types))

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group with its members."""
        return self._thread.run(self._client.describe_group(group_id))

    def list_group_offsets(self, group_id: str) -> dict[TopicPartition, GroupOffset]:
        """Return what a group has committed."""
        return self._thread.run(self._client.list_group_offsets(group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members."""
        self._thread.run(self._client.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed for partitions."""
        self._thread.run(self._client.delete_group_offsets(group_id, list(partitions)))

    def delete_group(self, group_id: str) -> None:
        """Delete a group with its offsets."""
        self._thread.run(self._client.delete_group(group_id))


class SyncProducer(_SyncClient[Producer]):
    """`Producer` with blocking calls; leaving the context flushes."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        settings: ProducerSettings | None = None,
        *,
        cluster_settings: ClusterSettings | None = None,
    ) -> None:
        super().__init__(bootstrap, cluster_settings, lambda cluster: Producer(cluster, settings))

    def __enter__(self) -> SyncProducer:
        return self

    async def _close_inner(self) -> None:
        await self._client.close()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Queue a record, waiting while the buffer is full; return a future for where it lands.

        Raises OperationError for an unknown topic or partition and for a record that is too large.
        """
        delivered: concurrent.futures.Future[RecordMetadata] = concurrent.futures.Future()

        async def send() -> None:
            delivery = await self._client.send(
                topic, value, key, partition=partition, headers=headers, timestamp=timestamp
            )
            delivery.add_done_callback(lambda done: _copy_outcome(done, delivered))

        self._thread.run(send())
        return delivered

    def send_many(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], *, partition: int | None = None
    ) -> list[RecordMetadata]:
        """Send (key, value) pairs in one go and wait until all are delivered."""
        pairs = list(records)

        async def send() -> list[RecordMetadata]:
            deliveries = [await self._client.send(topic, value, key, partition=partition) for key, value in pairs]
            await self._client.flush()
            return [await delivery for delivery in deliveries]

        return self._thread.run(send())

    def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""
        self._thread.run(self._client.flush())

    def init_transactions(self) -> None:
        """Take over the transactional id."""
        self._thread.run(self._client.init_transactions())

    def begin_transaction(self) -> None:
        """Open a transaction."""

        async def begin() -> None:
            self._client.begin_transaction()

        self._thread.run(begin())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetToCommit | int], group: GroupMembership | str
    ) -> None:
        """Commit how far a group has read as a part of the transaction."""
        self._thread.run(self._client.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Deliver what was sent and commit it."""
        self._thread.run(self._client.commit_transaction())

    def abort_transaction(self) -> None:
        """Drop what was sent and abort."""
        self._thread.run(self._client.abort_transaction())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction, commit it at the end of the block, or abort it when the block or the commit fails."""
        block = self._client.transaction()
        self._thread.run(block.__aenter__())
        try:
            yield
        except BaseException as error:
            self._thread.run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._thread.run(block.__aexit__(None, None, None))


class SyncFetcher(_SyncClient[Fetcher]):
    """`Fetcher` with blocking calls."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        settings: FetcherSettings | None = None,
        *,
        cluster_settings: ClusterSettings | None = None,
    ) -> None:
        super().__init__(bootstrap, cluster_settings, lambda cluster: Fetcher(cluster, settings))

    def __enter__(self) -> SyncFetcher:
        return self

    async def _close_inner(self) -> None:
        await self._client.close()

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int | None]) -> None:
        """Replace the assignment; a mapping gives start offsets."""

        async def assign() -> None:
            self._client.assign(partitions)

        self._thread.run(assign())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset."""

        async def seek() -> None:
            self._client.seek(partition, offset)

        self._thread.run(seek())

    def seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go to a timestamp or a special position."""
        self._thread.run(self._client.seek_to(list(partitions), timestamp))

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record, None while it is not known."""
        return self._client.position(partition)

    def poll(self, timeout_ms: int = 1_000, max_records: int = 500) -> list[FetchedRecord]:
        """Return up to `max_records` as soon as there are some, none after the timeout."""
        return self._thread.run(self._client.poll(timeout_ms, max_records))


def _copy_outcome(done: asyncio.Future[RecordMetadata], delivered: concurrent.futures.Future[RecordMetadata]) -> None:
    if done.cancelled():
        delivered.cancel()
    elif (error := done.exception()) is not None:
        delivered.set_exception(error)
    else:
        delivered.set_result(done.result())
