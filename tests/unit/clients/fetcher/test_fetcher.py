"""The fetcher: positions, resets, leaders that move, transactions, fairness."""

from __future__ import annotations

import asyncio

import pytest

from crabka.clients.errors import ClientClosedError, SaslAuthenticationError
from crabka.clients.fetcher.fetcher import FetchedRecord, Fetcher, FetcherSettings, OffsetReset
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.errors import CorruptBatchError
from crabka.records.record import Record
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.clients.simulation import CLIENT_HOST, ClientSimulation, simulate
from tests.support.clusters.memory import MemoryPartition

FROM_START = FetcherSettings(offset_reset=OffsetReset.EARLIEST)
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def fill(partition: MemoryPartition, batch_count: int, per_batch: int = 3) -> None:
    for _ in range(batch_count):
        start = partition.end_offset
        records = [Record(0, 1_000 + start + i, b"k", b"%d" % (start + i)) for i in range(per_batch)]
        partition.append_raw(build_batch(records, codec=len(partition.batches) % 5))


async def read_all(fetcher: Fetcher, count: int, max_records: int = 500) -> list[FetchedRecord]:
    records: list[FetchedRecord] = []
    while len(records) < count:
        polled = await fetcher.poll(10_000, max_records)
        assert polled, f"only {len(records)} of {count} came"
        records += polled
    return records


@run_with(simulate, node_ids=(1, 2))
async def test_reads_everything_from_the_start_in_order(simulation: ClientSimulation, /) -> None:
    partitions = simulation.brokers.create_topic("t", 2)
    for partition in partitions:
        fill(partition, 20)
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, partition_max_bytes=300)
    async with simulation.connect() as cluster, Fetcher(cluster, settings) as fetcher:
        fetcher.assign([T0, T1])
        records = await read_all(fetcher, 120, max_records=7)
        for wanted in (T0, T1):
            values = [record.value for record in records if record.partition == wanted.partition]
            assert values == [b"%d" % number for number in range(60)]
            assert fetcher.position(wanted) == fetcher.high_watermark(wanted) == 60


@run_with(simulate)
async def test_position_follows_what_was_returned_not_what_was_fetched(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 2)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        assert fetcher.position(T0) is None
        await fetcher.poll(1_000, 2)
        assert fetcher.position(T0) == 2


@run_with(simulate)
async def test_records_are_not_lost_when_the_next_fetch_cannot_be_started_in_time(
    simulation: ClientSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 2)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        assert len(await fetcher.poll(1_000, 1)) == 1
        # From now on no answer says who leads, as after a change of leaders.
        monkeypatch.setattr(cluster, "partition", lambda _, **_options: asyncio.sleep(60))
        records = [*await fetcher.poll(100, 1), *await fetcher.poll(100), *await fetcher.poll(100)]
        assert [record.value for record in records] == [b"%d" % number for number in range(1, 6)]


@run_with(simulate)
async def test_latest_waits_for_new_records(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 1)
    async with simulation.connect() as cluster, Fetcher(cluster) as fetcher:
        fetcher.assign([T0])
        assert await fetcher.poll(100) == []
        fill(partition, 1)
        assert [record.offset for record in await fetcher.poll(5_000)] == [3, 4, 5]


@run_with(simulate)
async def test_start_offset_and_seek_land_inside_a_batch(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 3)
    async with simulation.connect() as cluster, Fetcher(cluster) as fetcher:
        fetcher.assign({T0: 4})
        assert (await fetcher.poll())[0].offset == 4
        fetcher.seek(T0, 1)
        assert [record.offset for record in await fetcher.poll()] == list(range(1, 9))
        with pytest.raises(KeyError):
            fetcher.seek(T1, 0)


@run_with(simulate)
async def test_seek_while_a_fetch_is_under_way_drops_its_answer(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 3)
    async with simulation.connect() as cluster, Fetcher(cluster) as fetcher:
        await cluster.topic("t")
        fetcher.assign({T0: 0})
        polling = asyncio.ensure_future(fetcher.poll(5_000))
        while not simulation.brokers.asked(ApiKey.FETCH):
            await asyncio.sleep(0.0001)
        fetcher.seek(T0, 7)
        assert [record.offset for record in await polling] == [7, 8]


@run_with(simulate)
async def test_seek_by_timestamp_and_to_both_ends(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 3)
    async with simulation.connect() as cluster, Fetcher(cluster) as fetcher:
        fetcher.assign([T0])
        for timestamp, offset in ((1_004, 4), (EARLIEST, 0), (LATEST, 9), (99_999, 9)):
            await fetcher.seek_to([T0], timestamp)
            assert fetcher.position(T0) == offset


@run_with(simulate)
async def test_position_out_of_range_is_reset_by_policy(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    partition.log_start_offset = 6
    fill(partition, 2)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign({T0: 2})
        assert (await fetcher.poll(5_000))[0].offset == 6


@run_with(simulate)
async def test_position_out_of_range_without_policy_is_an_error(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 1)
    settings = FetcherSettings(offset_reset=OffsetReset.NONE)
    async with simulation.connect() as cluster, Fetcher(cluster, settings) as fetcher:
        fetcher.assign({T0: 99})
        with pytest.raises(OperationError) as caught:
            await fetcher.poll(5_000)
        assert caught.value.error_code is ErrorCode.offset_out_of_range


@pytest.mark.parametrize(
    "fault",
    [DisconnectError, ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_id, ErrorCode.fenced_leader_epoch],
)
@run_with(simulate)
async def test_passing_failures_are_survived(
    simulation: ClientSimulation, /, fault: ErrorCode | type[DisconnectError]
) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 4)
    simulation.brokers.fail_next(ApiKey.FETCH, fault, fault)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        assert len(await read_all(fetcher, 12)) == 12


@run_with(simulate)
async def test_unreachable_leader_is_waited_for_when_the_position_is_not_known(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 1)
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, request_timeout_ms=500)
    async with simulation.connect() as cluster, Fetcher(cluster, settings) as fetcher:
        await cluster.topic("t")
        simulation.network.partition(CLIENT_HOST, "broker-1")
        fetcher.assign([T0])
        assert await fetcher.poll(10_000) == []
        simulation.network.heal(CLIENT_HOST, "broker-1")
        assert len(await fetcher.poll(60_000)) == 3


@run_with(simulate, node_ids=(1, 2))
async def test_moved_leader_is_followed(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 1)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        await read_all(fetcher, 3)
        partition.leader = 2
        fill(partition, 1)
        assert [record.offset for record in await read_all(fetcher, 3)] == [3, 4, 5]


@run_with(simulate)
async def test_topic_that_does_not_exist_yet_is_waited_for(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster, Fetcher(cluster) as fetcher:
        fetcher.assign({T0: 0})
        assert fetcher.assignment == [T0]
        assert await fetcher.poll(1_000) == []
        simulation.brokers.create_topic("t")
        fill(simulation.brokers.topics["t"][0], 1)
        assert len(await fetcher.poll(5_000)) == 3


@run_with(simulate)
async def test_retriable_code_is_tried_again_with_the_same_leader(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 1)
    simulation.brokers.fail_next(ApiKey.FETCH, ErrorCode.offset_not_available)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        assert len(await fetcher.poll(5_000)) == 3
    assert len(simulation.brokers.asked(ApiKey.METADATA)) == 1


@run_with(simulate)
async def test_lasting_failure_is_raised_by_poll(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    simulation.brokers.fail_next(ApiKey.FETCH, ErrorCode.topic_authorization_failed)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        with pytest.raises(OperationError) as caught:
            await fetcher.poll(5_000)
        assert caught.value.error_code is ErrorCode.topic_authorization_failed


@run_with(simulate)
async def test_refused_user_is_raised_by_poll_at_once(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic("t")
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign({T0: 0})
        assert await fetcher.poll(100) == []
        cluster.settings = simulation.refusing_user()
        for broker in simulation.brokers.brokers.values():
            broker.cut_connections()
        started = simulation.loop.time()
        with pytest.raises(SaslAuthenticationError):
            await fetcher.poll(60_000)
        assert simulation.loop.time() - started < 5


@run_with(simulate)
async def test_corrupt_batch_is_raised_by_poll_after_the_good_ones(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 2)
    partition.batches[1] = partition.batches[1][:-1] + bytes([partition.batches[1][-1] ^ 1])
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0])
        assert len(await fetcher.poll(5_000)) == 3
        with pytest.raises(CorruptBatchError):
            await fetcher.poll(5_000)


@pytest.mark.parametrize(("read_committed", "expected"), [(True, [b"kept"]), (False, [b"gone", b"kept"])])
@run_with(simulate)
async def test_isolation_level_decides_about_aborted_records(
    simulation: ClientSimulation, /, expected: list[bytes], *, read_committed: bool
) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    partition.append_raw(
        build_batch([Record(0, 1, None, b"gone")], producer_id=4, producer_epoch=0, transactional=True)
    )
    end = EndTransactionMarker(committed=False, coordinator_epoch=0)
    partition.append_raw(build_end_transaction_batch(end, producer_id=4, producer_epoch=0, timestamp=1))
    partition.append_raw(build_batch([Record(0, 1, None, b"kept")]))
    partition.aborted.append((4, 0))
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, read_committed=read_committed)
    async with simulation.connect() as cluster, Fetcher(cluster, settings) as fetcher:
        fetcher.assign([T0])
        assert [record.value for record in await read_all(fetcher, len(expected))] == expected
        assert fetcher.position(T0) == 3


@run_with(simulate)
async def test_busy_partition_does_not_starve_the_other(simulation: ClientSimulation, /) -> None:
    for partition in simulation.brokers.create_topic("t", 2):
        fill(partition, 50)
    async with simulation.connect() as cluster, Fetcher(cluster, FROM_START) as fetcher:
        fetcher.assign([T0, T1])
        polls = [await fetcher.poll(5_000, 10) for _ in range(4)]
    assert {record.partition for records in polls for record in records} == {0, 1}


@run_with(simulate)
async def test_closed_fetcher_refuses_to_poll(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster:
        fetcher = Fetcher(cluster)
        await fetcher.close()
        with pytest.raises(ClientClosedError):
            await fetcher.poll()


@pytest.mark.parametrize("reset", [OffsetReset.EARLIEST, OffsetReset.NONE])
@run_with(simulate)
async def test_a_topic_that_appears_later_is_read_then_and_does_not_hold_up_others(
    simulation: ClientSimulation, /, reset: OffsetReset
) -> None:
    (partition,) = simulation.brokers.create_topic("t")
    fill(partition, 1)
    new = TopicPartition("new", 0)
    settings = FetcherSettings(offset_reset=reset)
    async with simulation.connect() as cluster, Fetcher(cluster, settings) as fetcher:
        start = 0 if reset is OffsetReset.NONE else None
        fetcher.assign({new: start, T0: start})
        records = await fetcher.poll(5_000)
        assert {record.topic for record in records} == {"t"}
        assert await fetcher.poll(2_000) == []
        (partition,) = simulation.brokers.create_topic("new")
        fill(partition, 1)
        assert {record.topic for record in await fetcher.poll(5_000)} == {"new"}
