"""Reading for ever: leaders that move, connections that break, offsets that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from crabka.clients.cluster.metadata import TopicMetadata
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, ms
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.remote_topic.event_fetcher import PORTION, EventFetcher
from crabka.remote_topic.event_log import EventBatch
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.runtime.task_scope import TaskScope
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.tier_topic.manager import until
from tests.support.tier_topic.topic import RecordedEvents, append_values, metadata_partitions


@asynccontextmanager
async def fetching(simulation: ClientSimulation) -> AsyncIterator[tuple[EventFetcher, RecordedEvents]]:
    sink, scope = RecordedEvents(), TaskScope()
    async with simulation.connect() as cluster:
        fetcher = EventFetcher(cluster, METADATA_TOPIC, sink, lambda _: True)
        scope.start(fetcher.run())
        try:
            yield fetcher, sink
        finally:
            await scope.close()
            await fetcher.close()


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


@run_with(simulate, node_ids=(1, 2, 3))
async def test_partitions_are_read_in_order_over_one_connection_per_leader(simulation: ClientSimulation, /) -> None:
    partitions = metadata_partitions(simulation.brokers, 6)
    for partition in partitions:
        append_values(partition, numbered(30))
    async with fetching(simulation) as (fetcher, sink):
        for number in range(6):
            fetcher.consume(number, 10 if number == 5 else 0)
        await until(lambda: all(sink.next_offset(number) == 30 for number in range(6)))
        append_values(partitions[2], numbered(5, 30))
        await until(lambda: sink.next_offset(2) == 35)
        await asyncio.sleep(60)
    assert sink.values(2) == numbered(35)
    assert sink.values(5) == numbered(20, 10)
    for broker in simulation.brokers.brokers.values():
        # One for metadata, one for fetches.
        assert broker.connection_count <= 2


@run_with(simulate)
async def test_events_are_handed_over_in_portions(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    count = 2 * PORTION + 7
    append_values(partition, numbered(count))
    for number in range(3):
        append_values(partition, numbered(1, count + number))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await until(lambda: sink.next_offset(0) == count + 3)
    assert [len(batch.records) for batch in sink.batches] == [PORTION, PORTION, 10]
    assert [batch.next_offset for batch in sink.batches] == [PORTION, 2 * PORTION, count + 3]
    assert sink.values(0) == numbered(count + 3)


@run_with(simulate)
async def test_offsets_that_hold_no_event_are_passed(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(2))
    marker = EndTransactionMarker(committed=True, coordinator_epoch=0)
    partition.append_raw(build_end_transaction_batch(marker, producer_id=9, producer_epoch=0, timestamp=5))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await until(lambda: sink.next_offset(0) == 3)
    assert sink.values(0) == numbered(2)


@pytest.mark.parametrize(
    "fault",
    [
        DisconnectError,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.topic_authorization_failed,
        ErrorCode.unknown_server_error,
    ],
)
@run_with(simulate)
async def test_no_failure_ends_the_reading(
    simulation: ClientSimulation, /, fault: ErrorCode | type[DisconnectError]
) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    simulation.brokers.fail_next(ApiKey.FETCH, *[fault] * 25)
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await until(lambda: sink.next_offset(0) == 3)
    assert sink.values(0) == numbered(3)


@run_with(simulate)
async def test_a_broker_that_is_away_from_the_start_is_dialled_until_it_comes(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    broker = simulation.brokers.brokers[1]
    host, port = simulation.brokers.addresses[1]
    broker.close()
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await asyncio.sleep(300)
        assert sink.batches == []
        await broker.listen(simulation.network.host(host), host, port)
        await until(lambda: sink.next_offset(0) == 3)
        # And again when it was away for a while.
        broker.close()
        await asyncio.sleep(300)
        append_values(partition, numbered(1, 3))
        await broker.listen(simulation.network.host(host), host, port)
        await until(lambda: sink.next_offset(0) == 4)
    assert sink.values(0) == numbered(4)


@run_with(simulate, node_ids=(1, 2))
async def test_a_new_leader_is_followed(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await until(lambda: sink.next_offset(0) == 3)
        partition.leader, partition.leader_epoch = 2, 1
        append_values(partition, numbered(3, 3))
        await until(lambda: sink.next_offset(0) == 6)
        partition.leader = -1
        append_values(partition, numbered(1, 6))
        await asyncio.sleep(30)
        assert sink.next_offset(0) == 6
        partition.leader, partition.leader_epoch = 1, 2
        await until(lambda: sink.next_offset(0) == 7)
    assert sink.values(0) == numbered(7)


@run_with(simulate)
async def test_a_partition_without_a_leader_does_not_keep_others_waiting(simulation: ClientSimulation, /) -> None:
    first, second = metadata_partitions(simulation.brokers, 2)
    first.leader = -1
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        fetcher.consume(1, 0)
        for number in range(10):
            append_values(second, numbered(1, number))
            await until(lambda count=number + 1: sink.next_offset(1) == count)  # type: ignore[misc]


@run_with(simulate)
async def test_a_corrupt_batch_is_never_passed_over_and_holds_up_no_other_partition(
    simulation: ClientSimulation, /
) -> None:
    first, second = metadata_partitions(simulation.brokers, 2)
    append_values(first, numbered(3))
    whole = first.batches[0]
    first.batches[0] = whole[:-1] + b"\xff"
    append_values(second, numbered(3))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        fetcher.consume(1, 0)
        await until(lambda: sink.next_offset(1) == 3)
        await asyncio.sleep(60)
        append_values(second, numbered(1, 3))
        await until(lambda: sink.next_offset(1) == 4)
        assert sink.next_offset(0) == 0
        first.batches[0] = whole
        await until(lambda: sink.next_offset(0) == 3)


@run_with(simulate)
async def test_events_that_retention_took_are_passed_over(
    simulation: ClientSimulation, /, caplog: pytest.LogCaptureFixture
) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    for number in range(5):
        append_values(partition, numbered(1, number))
    del partition.batches[:3]
    partition.log_start_offset = 3
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 1)
        await until(lambda: sink.next_offset(0) == 5)
    assert sink.values(0) == numbered(2, 3)
    assert sink.started_over == []
    assert "lost its events from 1 to 3" in caplog.text


@run_with(simulate)
async def test_a_log_that_does_not_reach_to_where_we_were_is_read_all_over_again(
    simulation: ClientSimulation, /, caplog: pytest.LogCaptureFixture
) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(2))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 9)
        await until(lambda: sink.next_offset(0) == 2)
    assert sink.started_over == [0]
    assert sink.values(0) == numbered(2)
    assert "ends at 2, but had events up to 9" in caplog.text


@run_with(simulate)
async def test_what_is_on_its_way_is_dropped_when_a_partition_is_stopped_or_begun_elsewhere(
    simulation: ClientSimulation, /
) -> None:
    first, second = metadata_partitions(simulation.brokers, 2)
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        fetcher.consume(1, 0)
        await until(lambda: bool(simulation.brokers.asked(ApiKey.FETCH)))
        append_values(first, numbered(4))
        append_values(second, numbered(4))
        fetcher.stop(0)
        fetcher.consume(1, 2)
        await until(lambda: sink.next_offset(1) == 4)
        await asyncio.sleep(10)
    assert sink.values(0) == []
    assert sink.values(1) == numbered(2, 2)


@run_with(simulate)
async def test_nothing_is_fetched_from_a_topic_that_is_another_one(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(2))
    seen: list[TopicMetadata] = []

    def is_another(topic: TopicMetadata) -> bool:
        seen.append(topic)
        return False

    scope, sink = TaskScope(), RecordedEvents()
    async with simulation.connect() as cluster:
        fetcher = EventFetcher(cluster, METADATA_TOPIC, sink, is_another)
        scope.start(fetcher.run())
        fetcher.consume(0, 0)
        await until(lambda: bool(seen))
        await asyncio.sleep(10)
        await scope.close()
        await fetcher.close()
    assert sink.batches == []
    assert seen[0].topic_id == simulation.brokers.topic_ids[METADATA_TOPIC]


@run_with(simulate, node_ids=(1, 2))
async def test_another_history_is_noticed_and_read_from_the_first_event_on(
    simulation: ClientSimulation, /, caplog: pytest.LogCaptureFixture
) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    for number in range(6):
        append_values(partition, numbered(1, number))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await until(lambda: sink.next_offset(0) == 6)
        # A replica that lacks two events is elected, and writes more than that: offsets alone look fine.
        partition.elect(2, end_offset=4)
        for number in range(10, 14):
            append_values(partition, numbered(1, number))
        await until(lambda: sink.values(0)[-1] == b"13")
    assert sink.started_over == [0]
    assert sink.suspended == [0]
    assert sink.values(0) == numbered(6) + numbered(4) + numbered(4, 10)
    assert "has another history than the one that was read to 6: it diverges at 4" in caplog.text


@run_with(simulate, node_ids=(1, 2))
async def test_a_new_leader_with_the_same_history_confirms_it(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 0)
        await until(lambda: sink.next_offset(0) == 3)
        partition.elect(2)
        await until(lambda: sink.batches[-1].records == [])
        assert sink.suspended == [0]
        assert (sink.batches[-1].next_offset, sink.batches[-1].leader_epoch) == (3, 0)
        append_values(partition, numbered(1, 3))
        await until(lambda: sink.next_offset(0) == 4)
    assert sink.batches[-1].leader_epoch == 1
    assert sink.started_over == []
    assert sink.suspended == [0]


@pytest.mark.parametrize("epoch", [0, 1])
@run_with(simulate)
async def test_a_place_from_before_is_confirmed_at_once_or_started_over(
    simulation: ClientSimulation, /, epoch: int
) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    async with fetching(simulation) as (fetcher, sink):
        # The log has exactly as many events as were read, in epoch 0.
        fetcher.consume(0, 3, epoch)
        await until(lambda: bool(sink.batches))
    if epoch:
        assert sink.started_over == [0]
        assert sink.values(0) == numbered(3)
    else:
        assert sink.started_over == []
        assert sink.batches == [EventBatch(0, [], 3, 0)]
        assert ms(simulation.brokers.asked(ApiKey.FETCH)[0].body.max_wait) == 0


@run_with(simulate)
async def test_a_leader_without_any_epoch_of_what_was_read_makes_it_start_over(simulation: ClientSimulation, /) -> None:
    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    # As Kafka answers if it knows no epochs.
    simulation.brokers.fail_next(ApiKey.FETCH, ErrorCode.offset_out_of_range)
    async with fetching(simulation) as (fetcher, sink):
        fetcher.consume(0, 2, 0)
        await until(lambda: sink.next_offset(0) == 3)
    assert sink.started_over == [0]
    assert sink.values(0) == numbered(3)


@run_with(simulate, node_ids=(1, 2))
async def test_a_late_answer_of_a_replaced_leader_counts_no_more(
    simulation: ClientSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log may end in events that the next leader never had."""

    (partition,) = metadata_partitions(simulation.brokers, 1)
    append_values(partition, numbered(3))
    waiting: dict[int, asyncio.Future[dict[TopicPartition, FetchAnswer]]] = {}
    async with simulation.connect() as cluster:
        topic = await cluster.topic(METADATA_TOPIC)
        sink = RecordedEvents()
        fetcher = EventFetcher(cluster, METADATA_TOPIC, sink, lambda _: True)

        async def request(node_id: int, _targets: object, _topic_id: object) -> dict[TopicPartition, FetchAnswer]:
            waiting[node_id] = asyncio.get_running_loop().create_future()
            return await waiting[node_id]

        monkeypatch.setattr(fetcher, "_request", request)
        fetcher.consume(0, 0)
        for leader, epoch in ((1, 5), (2, 6)):
            led = topic.partitions[0]._replace(leader=leader, leader_epoch=epoch)
            fetcher._start_by_leader(topic._replace(partitions={0: led}), [0])
            await asyncio.sleep(0.1)
        place = TopicPartition(METADATA_TOPIC, 0)
        answer = FetchAnswer(ErrorCode.none, 3, 0, (), b"".join(partition.batches))
        waiting[1].set_result({place: answer})
        await asyncio.sleep(0.1)
        assert sink.values(0) == []
        waiting[2].set_result({place: answer})
        await asyncio.sleep(0.1)
        assert sink.values(0) == numbered(3)
        await fetcher.close()
