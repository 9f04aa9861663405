"""The kit's own client: it produces, reads and administers for a test, and is left alone by faults and journal."""

from __future__ import annotations

import asyncio
import difflib
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.fetcher import FetchedRecord, Fetcher, FetcherSettings, OffsetReset
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.clients.producer.producer import Producer
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.sync.session import LoopThread
from crabka.config.topic import TOPIC_KEYS
from crabka.embedded.edge.dispatch import OWN_CLIENT_ID
from crabka.embedded.row import as_bytes, as_rows
from crabka.embedded.settings import Settings, settings_text
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition
from crabka.runtime import real_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from concurrent.futures import Future

    from crabka.clients.producer.accumulator import RecordMetadata
    from crabka.embedded.row import AnyRow, Row

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
_TIMEOUT_MS: Final = int(TIMEOUT_S * 1000)
# A broker that is paused or cut off does not answer: another one is asked then.
_REQUEST_MS: Final = 5_000
# A poll that waits longer would not notice that only control records are left.
_POLL_MS: Final = 100
_RETRY_S: Final = 0.05
_SETTINGS: Final = ClusterSettings(
    ConnectionSettings(OWN_CLIENT_ID, connect_timeout_ms=_REQUEST_MS, request_timeout_ms=_REQUEST_MS),
    metadata_timeout_ms=_TIMEOUT_MS,
)
# Only what produces may create a topic by its name.
_CREATING: Final = replace(_SETTINGS, allow_auto_topic_creation=True)
_PRODUCER: Final = ProducerSettings(
    linger_ms=0, request_timeout_ms=_REQUEST_MS, delivery_timeout_ms=_TIMEOUT_MS, max_block_ms=_TIMEOUT_MS
)


class KitClient:
    """Blocking calls for tests, from any thread. Connects with the first call and again after `close`."""

    def __init__(self, bootstrap: Callable[[], str], now_ms: Callable[[], int] | None = None) -> None:
        """`bootstrap` returns the addresses, and raises if there is nothing to connect to.

        `now_ms` gives records their timestamps; without it they have the machine's time.
        """
        self._bootstrap = bootstrap
        self._now_ms = now_ms
        self._opening = threading.Lock()
        self._session: _Session | None = None

    def close(self) -> None:
        """Close all connections; calls of other threads end with RuntimeError. Closing twice is allowed."""
        with self._opening:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def reconnect(self) -> None:
        """Let later calls use new connections; those of calls that wait for their answer stay."""
        with self._opening:
            session, self._session = self._session, None
        if session is not None:
            session.retire()

    def run(self, call: Callable[[_Client], Coroutine[Any, Any, T]]) -> T:
        """Run a call of the client. Raises TimeoutError after `TIMEOUT_S`."""
        bootstrap = self._bootstrap()
        with self._opening:
            if self._session is None:
                self._session = _Session(bootstrap)
            session = self._session
            answer = session.submit(call)
        try:
            return answer.result()
        except CancelledError:
            raise RuntimeError("the broker was stopped while it was asked") from None
        except TimeoutError:
            raise TimeoutError(f"no answer from {bootstrap} within {TIMEOUT_S:g} s") from None
        finally:
            answer.cancel()
            session.note_end()

    # --- for tests

    def produce(self, topic: str, rows: Iterable[AnyRow], partition: int | None) -> list[RecordMetadata]:
        """Produce records and wait until all replicas in sync have them."""
        ready = as_rows(rows)
        if self._now_ms is not None:
            now_ms = self._now_ms()
            ready = [replace(row, timestamp=now_ms if row.timestamp is None else row.timestamp) for row in ready]
        return self.run(lambda client: client.produce(topic, ready, partition))

    def records(self, topic: str, partition: int | None, *, read_committed: bool) -> list[FetchedRecord]:
        """Return the records that a topic has now, by partition and offset."""
        return self.run(lambda client: client.records(topic, partition, read_committed=read_committed))

    def lag(self, group: str, topic: str | None) -> int:
        """Return how many records a group has not committed yet."""
        return self.run(lambda client: client.lag(group, topic))

    def create_topic(self, name: str, partitions: int, replicas: int | None, settings: Settings) -> None:
        """Create a topic."""
        configs = topic_settings(settings)
        topic = NewTopic(name, partitions, -1 if replicas is None else replicas, configs)
        self.run(lambda client: client.create_topic(topic))

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.run(lambda client: client.admin.delete_topics([name]))


def topic_settings(settings: Settings) -> dict[str, str]:
    """Return settings of a topic as text. Raises ConfigError for a name that Kafka does not have."""
    configs = settings_text(settings)
    for name in configs:
        if name not in TOPIC_KEYS:
            nearest = difflib.get_close_matches(name, TOPIC_KEYS, n=1, cutoff=0.6)
            raise ConfigError(f"unknown topic setting {name}" + (f", did you mean {nearest[0]}?" if nearest else ""))
    return configs


class _Session:
    """A loop in a thread, with the connections of one client."""

    def __init__(self, bootstrap: str) -> None:
        self._runtime = real_runtime()
        self._thread = LoopThread("crabka-test-kit")
        self._calls: set[asyncio.Task[Any]] = set()
        self._waiting = 0
        self._is_retired = False
        self._counting = threading.Lock()

        async def connect() -> _Client:
            clusters = (Cluster(self._runtime, bootstrap, each) for each in (_SETTINGS, _CREATING))
            return _Client(*clusters)

        self._client = self._thread.run(connect())

    def submit(self, call: Callable[[_Client], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin a call; `note_end` must follow."""
        with self._counting:
            self._waiting += 1

        async def limited() -> T:
            me = asyncio.current_task()
            assert me is not None  # noqa: S101 - this is a coroutine
            self._calls.add(me)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    return await call(self._client)
            finally:
                self._calls.discard(me)

        return self._thread.submit(limited())

    def retire(self) -> None:
        """Close with the end of the last call."""
        with self._counting:
            self._is_retired = True
            is_unused = not self._waiting
        if is_unused:
            self.close()

    def note_end(self) -> None:
        """Count a call that has ended."""
        with self._counting:
            self._waiting -= 1
            is_last = self._is_retired and not self._waiting
        if is_last:
            self.close()

    def close(self) -> None:
        """Cancel the calls and end everything."""

        async def end() -> None:
            for each in self._calls:
                each.cancel()
            if self._calls:
                await asyncio.wait(self._calls)
            await self._client.close()

        try:
            self._thread.run(end())
        finally:
            self._thread.close()
            self._runtime.threads.close()


class _Client:
    """The coroutines behind the calls."""

    def __init__(self, cluster: Cluster, creating: Cluster) -> None:
        self._cluster = cluster
        self._creating = creating
        self.admin = Admin(cluster, _REQUEST_MS)

    async def close(self) -> None:
        await self._cluster.close()
        await self._creating.close()

    async def produce(self, topic: str, rows: list[Row], partition: int | None) -> list[RecordMetadata]:
        async with Producer(self._creating, _PRODUCER) as producer:
            sent = [
                await producer.send(
                    topic,
                    as_bytes(row.value),
                    as_bytes(row.key),
                    partition=partition if row.partition is None else row.partition,
                    headers=tuple((name, as_bytes(value)) for name, value in row.headers.items()),
                    timestamp=row.timestamp,
                )
                for row in rows
            ]
            await producer.flush()
            return [await each for each in sent]

    async def records(self, topic: str, partition: int | None, *, read_committed: bool) -> list[FetchedRecord]:
        chosen = await self._partitions(topic, partition)
        starts = await self._offsets(chosen, EARLIEST)
        ends = await self._offsets(chosen, LATEST, read_committed=read_committed)
        settings = FetcherSettings(
            max_wait_ms=_POLL_MS, read_committed=read_committed, offset_reset=OffsetReset.EARLIEST
        )
        found: list[FetchedRecord] = []
        async with Fetcher(self._cluster, settings) as fetcher:
            left = {each: starts[each] for each in chosen if starts[each] < ends[each]}
            fetcher.assign(left)
            while any((fetcher.position(each) or 0) < ends[each] for each in left):
                fetched = await fetcher.poll(_POLL_MS, max_records=10_000)
                found += (each for each in fetched if each.offset < ends[TopicPartition(each.topic, each.partition)])
        return sorted(found, key=lambda record: (record.partition, record.offset))

    async def lag(self, group: str, topic: str | None) -> int:
        committed = await self._retrying(lambda: self.admin.groups.list_offsets(group))
        topics = {each.topic for each in committed} if topic is None else {topic}
        if not topics:
            raise LookupError(f"group {group} has not committed an offset")
        partitions = [each for name in sorted(topics) for each in await self._partitions(name, None)]
        starts = await self._offsets(partitions, EARLIEST)
        ends = await self._offsets(partitions, LATEST)
        return sum(
            max(0, ends[each] - (committed[each].offset if each in committed else starts[each])) for each in partitions
        )

    async def create_topic(self, topic: NewTopic) -> None:
        await self.admin.create_topics([topic])
        # Brokers learn of a topic one after the other: a test may ask any of them as soon as this returns.
        for each in range(topic.partition_count):
            await self._cluster.partition(TopicPartition(topic.name, each))

    async def _partitions(self, topic: str, partition: int | None) -> list[TopicPartition]:
        described = await self._retrying(lambda: self.admin.describe_topics([topic]))
        known = sorted(described[topic].partitions)
        if partition is not None and partition not in known:
            raise LookupError(f"topic {topic} has partitions 0 to {known[-1]}, and no {partition}")
        return [TopicPartition(topic, each) for each in known if partition in (None, each)]

    async def _offsets(
        self, partitions: Iterable[TopicPartition], position: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, position)
        found = await self._retrying(lambda: self.admin.list_offsets(wanted, read_committed=read_committed))
        return {partition: each.offset for partition, each in found.items()}

    async def _retrying(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask until the answer is no passing error: brokers of a test come and go."""
        while True:
            try:
                return await ask()
            except ClientNetworkError:
                pass
            except OperationError as error:
                if not error.retriable or error.error_code.name == "unknown_topic_or_partition":
                    raise
            await asyncio.sleep(_RETRY_S)
