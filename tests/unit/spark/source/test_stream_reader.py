from __future__ import annotations

import pytest
from pyspark.sql.streaming import datasource as pyspark_streaming

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.errors import AuthenticationError, ClientNetworkError, VersionMismatchError
from crabka.embedded import Broker
from crabka.errors import WireError
from crabka.ids import TopicPartition
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.source.stream_reader import CrabkaStreamReader
from tests.support.pickling import sent

pytestmark = pytest.mark.usefixtures("plan_cache")

ALL = pyspark_streaming.ReadAllAvailable()


def reader(broker: Broker | None = None, **more: str) -> CrabkaStreamReader:
    servers = "x:1" if broker is None else broker.bootstrap_servers
    given = {"kafka.bootstrap.servers": servers, "subscribe": "t", "startingOffsets": "earliest"}
    return CrabkaStreamReader(SourceOptions.parse(given | more, streaming=True), ("offset",), ("offset",))


def produce(broker: Broker, count: int) -> None:
    with SyncProducer(broker.bootstrap_servers) as producer:
        producer.send_many("t", [(None, b"x")] * count, partition=0)


def offsets(made: CrabkaStreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[int]:
    rows = [batch for part in made.partitions(start, end) for batch in made.read(part)]
    return sorted(offset for batch in rows for offset in batch.column("offset").to_pylist())


def test_spark_receives_the_limits_of_the_options() -> None:
    assert reader().getDefaultReadLimit() == ALL
    assert reader(minOffsetsPerTrigger="5").getDefaultReadLimit() == pyspark_streaming.ReadMinRows(5)
    both = reader(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9")
    assert both.getDefaultReadLimit() == pyspark_streaming.ReadMaxRows(9)
    assert sent(both).getDefaultReadLimit() == pyspark_streaming.ReadMaxRows(9)
    assert both.reportLatestOffset() is None


def test_batches_follow_each_other_without_gap_or_overlap() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        made = reader(broker, maxOffsetsPerTrigger="4", commitGroup="g")
        start = made.initialOffset()
        assert start == {"t": {"0": 0}}
        assert made.latestOffset(start, made.getDefaultReadLimit()) == start
        assert made.partitions(start, start) == []
        produce(broker, 10)
        seen: list[int] = []
        while (end := made.latestOffset(start, made.getDefaultReadLimit())) != start:
            seen += offsets(made, start, end)
            start = end
        assert seen == list(range(10))
        assert made.reportLatestOffset() == {"t": {"0": 10}}
        assert made.latestOffset({"t": {"0": 0}}, ALL) == {"t": {"0": 10}}
        made.commit(start)
        assert admin.groups.list_offsets("g")[TopicPartition("t", 0)].offset == 10
        admin.create_partitions({"t": 2})
        assert made.latestOffset(start, ALL) == {"t": {"0": 10, "1": 0}}


def test_a_small_batch_waits_but_not_when_the_query_ends_with_what_there_is() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        produce(broker, 6)
        made = reader(broker, minOffsetsPerTrigger="5")
        limit = made.getDefaultReadLimit()
        first = made.latestOffset({"t": {"0": 0}}, limit)
        produce(broker, 4)
        assert made.latestOffset(first, limit) == first
        produce(broker, 1)
        assert made.latestOffset(first, limit) == {"t": {"0": 11}}
        ending = reader(broker, minOffsetsPerTrigger="5")
        ending.prepareForTriggerAvailableNow()
        assert ending.latestOffset({"t": {"0": 6}}, limit) == {"t": {"0": 11}}
        produce(broker, 9)
        assert ending.latestOffset({"t": {"0": 11}}, limit) == {"t": {"0": 11}}


def test_a_query_that_begins_at_the_end_keeps_its_beginning() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        produce(broker, 5)
        made = reader(broker, startingOffsets="latest")
        # In this order Spark asks for its first batch, which it logs before it runs it.
        start = made.initialOffset()
        produce(broker, 3)
        logged = made.latestOffset(start, ALL)
        produce(broker, 2)
        assert start == logged == made.initialOffset() == {"t": {"0": 5}}
        assert made.partitions(start, logged) == []
        end = made.latestOffset(logged, ALL)
        assert offsets(made, logged, end) == [5, 6, 7, 8, 9]
        # A query that is started again before the first batch is done runs it with the end that was logged.
        again = reader(broker, startingOffsets="latest")
        assert again.initialOffset() == {"t": {"0": 10}}
        assert again.partitions(again.initialOffset(), logged) == []
        assert again.latestOffset(logged, ALL) == end


def test_a_query_that_ends_with_what_there_is_may_begin_at_the_end() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        produce(broker, 5)
        made = reader(broker, startingOffsets="latest")
        made.prepareForTriggerAvailableNow()
        start = made.initialOffset()
        produce(broker, 3)
        assert made.latestOffset(start, ALL) == start
        produce(broker, 2)
        assert made.latestOffset(start, ALL) == {"t": {"0": 8}}
        assert made.latestOffset({"t": {"0": 8}}, ALL) == {"t": {"0": 8}}


def test_a_first_batch_that_is_run_again_holds_nothing_back() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        produce(broker, 5)
        again = reader(broker, startingOffsets="latest")
        logged = {"t": {"0": 5}}
        assert again.partitions(again.initialOffset(), logged) == []
        produce(broker, 3)
        assert again.latestOffset(logged, ALL) == {"t": {"0": 8}}


@pytest.mark.parametrize("error", [AuthenticationError, ClientNetworkError, VersionMismatchError, WireError])
def test_a_group_that_cannot_be_reached_stops_no_query(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise error("no")

    monkeypatch.setattr(BrokerSession, "__enter__", refuse)
    reader(commitGroup="g").commit({"t": {"0": 5}})
    assert "could not be committed to the group g: no" in caplog.text
