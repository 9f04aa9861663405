"""The metadata topic from its beginning to its end, and on."""

from __future__ import annotations

import pytest

from crabka.clients.errors import RequestTimeoutError
from crabka.protocol.apis import ApiKey
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.remote.segments import RemoteLogSegmentState
from crabka.remote_topic import reading
from crabka.remote_topic.event_reader import MetadataEvent
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.reading import MetadataPosition, MetadataTopicReader
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.clusters.memory import MemoryPartition
from tests.support.recorded.tier import golden_events
from tests.support.tiers.planted import ORDERS, two_segments, update

FIRST, SECOND = two_segments().segments
DELETING = update(FIRST, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


def append(partition: MemoryPartition, *values: bytes | None) -> None:
    partition.append_raw(build_batch([Record(0, 1, None, value) for value in values]))


@run_with(simulate, node_ids=(1, 2))
async def test_all_partitions_are_read_to_their_end(simulation: ClientSimulation, /) -> None:
    partitions = simulation.brokers.create_topic(METADATA_TOPIC, 5)
    expected = golden_events("single")
    for number, event in enumerate(expected):
        append(partitions[number % 4], encode_event(event))
    events: list[MetadataEvent] = []
    progress: list[tuple[int, int]] = []
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(events.append, on_progress=lambda done, total: progress.append((done, total)))
    assert sorted(map(encode_event, events)) == sorted(map(encode_event, expected))
    assert (progress[0], progress[-1]) == ((0, len(expected)), (len(expected), len(expected)))
    assert reader.log_starts == dict.fromkeys(range(5), 0)
    assert reader.unreadable == []


@run_with(simulate)
async def test_a_second_call_goes_on_where_the_first_ended(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic(METADATA_TOPIC)
    append(partition, encode_event(FIRST))
    events: list[MetadataEvent] = []
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(events.append)
        assert events == [FIRST]
        await reader.read_on(events.append)
        assert events == [FIRST]
        append(partition, encode_event(SECOND), encode_event(DELETING))
        await reader.read_on(events.append)
    assert events == [FIRST, SECOND, DELETING]


@run_with(simulate)
async def test_only_the_metadata_partitions_of_what_is_wanted_are_read(simulation: ClientSimulation, /) -> None:
    partitions = simulation.brokers.create_topic(METADATA_TOPIC, 4)
    own = metadata_partition_for(ORDERS, 4)
    for index, partition in enumerate(partitions):
        append(partition, encode_event(FIRST if index == own else SECOND))
    events: list[MetadataEvent] = []
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(events.append, of=[ORDERS])
        assert events == [FIRST]
        assert set(reader.log_starts) == {own}


@run_with(simulate)
async def test_records_that_are_no_events_are_remembered_and_passed_over(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic(METADATA_TOPIC)
    append(partition, b"\x01\x09\x00", encode_event(FIRST), None)
    events: list[MetadataEvent] = []
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(events.append)
    assert events == [FIRST]
    assert [(bad.partition, bad.offset) for bad in reader.unreadable] == [(0, 0), (0, 2)]


@run_with(simulate)
async def test_a_topic_that_begins_late_reports_it(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic(METADATA_TOPIC)
    partition.log_start_offset = 7
    append(partition, encode_event(FIRST))
    events: list[MetadataEvent] = []
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(events.append)
    assert (events, reader.log_starts) == ([FIRST], {0: 7})


@run_with(simulate)
async def test_a_cluster_without_the_topic_has_no_events_and_gets_none(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster:
        events: list[MetadataEvent] = []
        reader = MetadataTopicReader(cluster)
        assert await reader.partition_count() is None
        await reader.read_on(events.append)
        assert events == []
    assert METADATA_TOPIC not in simulation.brokers.topics


@run_with(simulate)
async def test_a_leader_that_gives_nothing_is_not_waited_for_for_ever(
    simulation: ClientSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_MS", 2_000)

    (partition,) = simulation.brokers.create_topic(METADATA_TOPIC)
    append(partition, encode_event(FIRST))
    events: list[MetadataEvent] = []
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.partition_count()
        simulation.brokers.brokers[1].answers[ApiKey.FETCH] = lambda _request: None
        with pytest.raises(RequestTimeoutError, match="has 1 more records"):
            await reader.read_on(events.append)


@run_with(simulate, node_ids=(1,))
async def test_a_log_that_ends_before_what_was_read_is_reported(simulation: ClientSimulation, /) -> None:
    partitions = simulation.brokers.create_topic(METADATA_TOPIC, 2)
    append(partitions[0], encode_event(FIRST))
    append(partitions[1], encode_event(SECOND))
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster, {0: MetadataPosition(5), 1: MetadataPosition(1)})
        await reader.read_on(lambda _event: None)
    assert reader.outdated == {0}


@run_with(simulate, node_ids=(1,))
async def test_a_log_that_was_cut_and_has_grown_again_is_noticed(simulation: ClientSimulation, /) -> None:
    cut, whole = simulation.brokers.create_topic(METADATA_TOPIC, 2)
    for partition in (cut, whole):
        append(partition, encode_event(FIRST))
        append(partition, encode_event(DELETING))
    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(lambda _event: None)
        assert reader.outdated == set()
        places = reader.positions
        assert places == {0: MetadataPosition(2, 0), 1: MetadataPosition(2, 0)}
        cut.elect(1, 1)
        whole.elect(1)
        for partition in (cut, whole):
            append(partition, encode_event(SECOND))
            append(partition, encode_event(SECOND))
        await reader.read_on(lambda _event: None)
        assert reader.outdated == {0}
        later = MetadataTopicReader(cluster, places)
        await later.read_on(lambda _event: None)
        assert later.outdated == {0}
        assert later.positions[1] == MetadataPosition(4, 1)


@run_with(simulate, node_ids=(1,))
async def test_a_cut_in_the_middle_of_a_read_is_noticed(
    simulation: ClientSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_POLL_RECORDS", 1)

    (partition,) = simulation.brokers.create_topic(METADATA_TOPIC)
    for _ in range(3):
        append(partition, encode_event(FIRST))
    events: list[MetadataEvent] = []

    def cut(event: MetadataEvent) -> None:
        events.append(event)
        if len(events) == 1:
            # What comes next is buffered already, from the log before the cut.
            partition.elect(1, 1)
            append(partition, *[encode_event(SECOND)] * 4)

    async with simulation.connect() as cluster:
        reader = MetadataTopicReader(cluster)
        await reader.read_on(cut)
        assert (events, reader.outdated) == ([FIRST] * 3, {0})
