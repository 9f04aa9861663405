"""What brokers and the metadata topic say of tiered partitions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, cast

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigOwner, ConfigValue
from crabka.clients.errors import VersionMismatchError
from crabka.clients.fetcher.offsets import OffsetAndTimestamp
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.remote.scrub import TierFaultKind
from crabka.remote.segments import RemoteLogSegmentState, TopicIdPartition
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.remote_topic.tier_view import TierView, offsets_at, topic_settings
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.tier_topic.publishing import publish
from tests.support.tiers.planted import PlantedTier, two_segments, update


def tiered(simulation: ClientSimulation, name: str, first_id: int) -> PlantedTier:
    simulation.brokers.create_topic(name)
    tier = two_segments(TopicIdPartition(simulation.brokers.topic_ids[name], name, 0), first_id)
    publish(simulation, tier)
    return tier


@run_with(simulate)
async def test_all_topics_are_seen(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic(METADATA_TOPIC, 5)
    b, a = tiered(simulation, "b", 1), tiered(simulation, "a", 100)
    async with simulation.connect() as cluster:
        view = TierView(cluster)
        await view.read_on()
        assert [(partition.topic, len(found)) for partition, found in view.finished().items()] == [
            ("a", 2),
            ("b", 2),
        ]
        assert view.topic_faults == []
        assert set(simulation.brokers.topic_ids.values()) == view.topic_ids
        a.events = [update(a.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED)]
        publish(simulation, a)
        await view.read_on()
        assert len(list(view.history.finished())) == 3
        assert len(view.history.segments) == len(a.segments) + len(b.segments)


@run_with(simulate)
async def test_only_named_topics_are_seen(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic(METADATA_TOPIC, 1)
    tiered(simulation, "a", 1)
    tiered(simulation, "b", 100)
    async with simulation.connect() as cluster:
        view = TierView(cluster, ["b"])
        await view.read_on()
        assert {partition.topic for partition in view.finished()} == {"b"}
        assert list(view.live_partitions()) == [TopicPartition("b", 0)]


@run_with(simulate)
async def test_a_topic_that_is_gone_is_found_in_the_metadata(simulation: ClientSimulation, /) -> None:
    simulation.brokers.create_topic(METADATA_TOPIC, 3)
    tier = two_segments(TopicIdPartition(uuid.UUID(int=9), "gone", 0))
    publish(simulation, tier)
    async with simulation.connect() as cluster:
        view = TierView(cluster, ["gone"])
        await view.read_on()
        assert [len(found) for found in view.finished().values()] == [2]
        assert view.live_partitions() == {}
        with pytest.raises(ConfigError, match="neither the cluster nor the tier has a topic never"):
            await TierView(cluster, ["never"]).read_on()


@run_with(simulate)
async def test_a_cluster_that_never_tiered_is_reported(simulation: ClientSimulation, /) -> None:
    async with simulation.connect() as cluster:
        with pytest.raises(ConfigError, match="nothing was ever tiered"):
            await TierView(cluster).read_on()


@run_with(simulate)
async def test_a_cut_metadata_topic_and_strange_records_are_faults(simulation: ClientSimulation, /) -> None:
    partitions = simulation.brokers.create_topic(METADATA_TOPIC, 2)
    partitions[1].log_start_offset = 5
    partitions[0].append_raw(build_batch([Record(0, 1, None, b"garbage")]))
    async with simulation.connect() as cluster:
        view = TierView(cluster)
        await view.read_on()
        faults = view.topic_faults
    assert [fault.kind for fault in faults] == [TierFaultKind.CUT_METADATA, TierFaultKind.BAD_EVENT]
    assert f"{METADATA_TOPIC}-1 begins at offset 5" in faults[0].detail
    assert f"{METADATA_TOPIC}-0 has no event at offset 0" in faults[1].detail


class PickyAdmin:
    """Answers for partitions below 10 and refuses requests with another one."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        if any(partition.partition >= 10 for partition in wanted):
            raise self._error
        return {partition: OffsetAndTimestamp(partition.partition - 1, -1, 0) for partition in wanted}

    async def describe_configs(self, owner: ConfigOwner, names: list[str]) -> dict[str, ConfigValue]:
        if owner.name == "vanished":
            raise self._error
        return {
            names[0]: ConfigValue(
                names[0],
                owner.name,
                source=1,
                is_read_only=False,
                is_sensitive=False,
                type=2,
                documentation=None,
                synonyms=(),
            )
        }


def picky(error: Exception) -> Admin:
    return cast("Admin", cast("Any", PickyAdmin(error)))


def test_a_partition_that_fails_does_not_hide_the_others() -> None:
    admin = picky(OperationError(ErrorCode.unknown_topic_or_partition))
    wanted = [TopicPartition("t", index) for index in (0, 1, 10, 2, 3)]
    found = asyncio.run(offsets_at(admin, wanted, -4))
    assert {partition.partition: offset for partition, offset in found.items()} == {0: None, 1: 0, 10: None, 2: 1, 3: 2}
    assert asyncio.run(offsets_at(admin, [], -4)) == {}


def test_a_broker_that_does_not_know_a_kind_of_offset_gives_none() -> None:
    wanted = [TopicPartition("t", index) for index in (10, 11)]
    found = asyncio.run(offsets_at(picky(VersionMismatchError("too old")), wanted, -5))
    assert found == dict.fromkeys(wanted)


def test_settings_of_many_topics_are_asked_for() -> None:
    admin = picky(OperationError(ErrorCode.unknown_topic_or_partition))
    names = [f"t{number}" for number in range(60)]
    found = asyncio.run(topic_settings(admin, [*names, "vanished"], ["a", "b"]))
    assert found == {name: {"a": name, "b": None} for name in names}


@run_with(simulate)
async def test_a_metadata_topic_with_another_history_is_read_again(simulation: ClientSimulation, /) -> None:
    (partition,) = simulation.brokers.create_topic(METADATA_TOPIC, 1)
    tiered(simulation, "a", 1)
    async with simulation.connect() as cluster:
        view = TierView(cluster)
        await view.read_on()
        assert {each.topic for each in view.finished()} == {"a"}
        partition.elect(1, 0)
        tiered(simulation, "b", 100)
        tiered(simulation, "c", 200)
        await view.read_on()
        assert {each.topic for each in view.finished()} == {"b", "c"}
