"""The blocking producer over real sockets."""

from __future__ import annotations

import pytest

from crabka.clients.errors import AbortableTransactionError
from crabka.clients.fetcher.fetcher import FetchedRecord, FetcherSettings, OffsetReset
from crabka.clients.producer.producer import ProducerSettings
from crabka.clients.sync.fetcher import SyncFetcher
from crabka.clients.sync.producer import SyncProducer
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.clusters.loopback import loopback_cluster
from tests.support.coordinators.memory_transactions import MemoryTransactions

FROM_START = FetcherSettings(offset_reset=OffsetReset.EARLIEST)
T0 = TopicPartition("t", 0)


def test_records_go_through_producer_and_fetcher() -> None:
    with loopback_cluster((1, 2)) as (cluster, bootstrap):
        cluster.create_topic("t", 3)
        with SyncProducer(bootstrap) as producer:
            futures = [producer.send("t", b"%d" % number, b"k%d" % number) for number in range(30)]
            producer.flush()
            assert all(future.result(120).offset >= 0 for future in futures)
            assert len(producer.send_many("t", ((None, b"x") for _ in range(10)), partition=0)) == 10
        with SyncFetcher(bootstrap, FROM_START) as fetcher:
            fetcher.assign([TopicPartition("t", index) for index in range(3)])
            records: list[FetchedRecord] = []
            while len(records) < 40:
                records += fetcher.poll(10_000)
        assert {record.value for record in records} == {b"x", *(b"%d" % number for number in range(30))}


def test_failed_delivery_reaches_the_future_and_bad_calls_raise() -> None:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic("t")
        cluster.fail_next(ApiKey.PRODUCE, ErrorCode.message_too_large)
        with SyncProducer(bootstrap, ProducerSettings(linger_ms=0)) as producer:
            with pytest.raises(OperationError) as caught:
                producer.send("t", b"x").result(120)
            assert caught.value.error_code is ErrorCode.message_too_large
            with pytest.raises(OperationError):
                producer.send("t", bytes(2_000_000))


def test_transactions_can_be_driven_without_async() -> None:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic("t")
        coordinator = MemoryTransactions(cluster)
        with SyncProducer(bootstrap, ProducerSettings(transactional_id="id")) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"a", partition=0)
            producer.send_offsets_to_transaction({T0: 5}, "g")
            producer.commit_transaction()
            producer.begin_transaction()
            producer.send("t", b"b", partition=0)
            producer.abort_transaction()
            with producer.transaction():
                producer.send("t", b"c", partition=0)
            with pytest.raises(OperationError), producer.transaction():
                producer.send("t", bytes(2_000_000))
            cluster.fail_next(ApiKey.PRODUCE, ErrorCode.message_too_large)
            with pytest.raises(AbortableTransactionError), producer.transaction():
                producer.send("t", b"e", partition=0)
        assert coordinator.committed_values == {T0: [b"a", b"c"]}
        assert coordinator.committed == {"g": {T0: 5}}
        assert coordinator.ends == [True, False, True, False]
