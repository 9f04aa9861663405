"""The producer with blocking calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Iterable, Iterator, Mapping

from crabka.clients.cluster.cluster import Bootstrap, Cluster, ClusterSettings
from crabka.clients.producer.accumulator import RecordMetadata
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.clients.producer.transaction_messages import GroupMembership, OffsetToCommit
from crabka.clients.sync.session import SyncSession
from crabka.ids import TopicPartition
from crabka.records.record import Headers


class SyncProducer:
    """`Producer` with blocking calls; leaving the context flushes."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        settings: ProducerSettings | None = None,
        *,
        cluster_settings: ClusterSettings | None = None,
    ) -> None:
        self._session = SyncSession(
            lambda runtime: Cluster(runtime, bootstrap, cluster_settings),
            lambda cluster: Producer(cluster, settings),
            lambda producer: producer.close(),
        )
        self._run = self._session.run
        self._client = self._session.client

    def close(self) -> None:
        """Close the client and its connections. Closing twice is allowed."""
        self._session.close()

    def __enter__(self) -> SyncProducer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

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
        """Queue a record, waiting while the buffer is full; return a future for its offset.

        Raises OperationError for an unknown topic or partition and for a record that is too large.
        """
        delivered: concurrent.futures.Future[RecordMetadata] = concurrent.futures.Future()

        async def send() -> None:
            delivery = await self._client.send(
                topic, value, key, partition=partition, headers=headers, timestamp=timestamp
            )
            delivery.add_done_callback(lambda done: _copy_outcome(done, delivered))

        self._run(send())
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

        return self._run(send())

    def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""
        self._run(self._client.flush())

    def init_transactions(self) -> None:
        """Take over the transactional id."""
        self._run(self._client.init_transactions())

    def begin_transaction(self) -> None:
        """Open a transaction."""

        async def begin() -> None:
            self._client.begin_transaction()

        self._run(begin())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetToCommit | int], group: GroupMembership | str
    ) -> None:
        """Commit offsets of a group as a part of the transaction."""
        self._run(self._client.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """Deliver the records of the transaction and commit it."""
        self._run(self._client.commit_transaction())

    def abort_transaction(self) -> None:
        """Drop the records of the transaction and abort it."""
        self._run(self._client.abort_transaction())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction, commit it at the end of the block, or abort it when the block or the commit fails."""
        block = self._client.transaction()
        self._run(block.__aenter__())
        try:
            yield
        except BaseException as error:
            self._run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._run(block.__aexit__(None, None, None))


def _copy_outcome(done: asyncio.Future[RecordMetadata], delivered: concurrent.futures.Future[RecordMetadata]) -> None:
    if done.cancelled():
        delivered.cancel()
    elif (error := done.exception()) is not None:
        delivered.set_exception(error)
    else:
        delivered.set_result(done.result())
