"""Checks of a tier while its cluster goes on working."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from crabka.cli.tier.progress import TierProgress
from crabka.clients.admin.admin import Admin
from crabka.clients.fetcher.offsets import EARLIEST, EARLIEST_LOCAL
from crabka.ids import TopicPartition
from crabka.ports import Buffer
from crabka.remote.errors import RemoteBackendError
from crabka.remote.listing import TierObject
from crabka.remote.scrub import TierFault, TierFaultKind
from crabka.remote.segments import (
    CustomMetadata,
    IndexType,
    LogSegmentData,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.remote_topic.reading import OnProgress
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.remote_topic.tier_check import CheckOptions, CheckResult, TierCheck, check_on_threads
from crabka.remote_topic.tier_view import TierView
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.tier_topic.publishing import publish
from tests.support.tiers.planted import PlantedStorage, PlantedTier, batches, two_segments, update

FSCK = CheckOptions(grace_ms=0)


def prepare(simulation: ClientSimulation, name: str = "orders") -> PlantedTier:
    if METADATA_TOPIC not in simulation.brokers.topics:
        simulation.brokers.create_topic(METADATA_TOPIC, 2)
    simulation.brokers.create_topic(name)
    tier = two_segments(TopicIdPartition(simulation.brokers.topic_ids[name], name, 0), 1 + 100 * len(name))
    publish(simulation, tier)
    tier.events.clear()
    return tier


async def check(
    simulation: ClientSimulation,
    storage: RemoteStorageManager,
    options: CheckOptions = FSCK,
    names: tuple[str, ...] = (),
    *,
    reads: bool = True,
) -> CheckResult:
    contents = check_on_threads(storage, 2) if reads else None
    async with simulation.connect() as cluster:
        with TierProgress() as progress:
            return await TierCheck(TierView(cluster, names), storage, options, contents).run(progress)


def kinds(result: CheckResult) -> list[TierFaultKind]:
    return [fault.kind for fault in result.faults]


@run_with(simulate)
async def test_a_clean_tier_is_counted(simulation: ClientSimulation, /) -> None:
    tier = prepare(simulation)
    result = await check(simulation, tier.storage)
    assert (result.faults, result.exit_code) == ([], 0)
    assert (result.partition_count, result.segment_count, result.object_count) == (1, 2, 10)
    assert result.byte_count == sum(segment.segment_size_bytes for segment in tier.segments)


def test_what_retention_removes_meanwhile_is_no_fault() -> None:
    class VanishingStorage(PlantedStorage):
        """Loses its first segment after it was listed, as retention would do it."""

        def list_objects(self, prefix: str = "") -> Iterator[TierObject]:
            yield from list(super().list_objects(prefix))
            self.delete_log_segment_data(tier.segments[0])
            tier.events = [
                update(tier.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED),
                update(tier.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_FINISHED),
            ]
            publish(simulations[0], tier)

    simulations: list[ClientSimulation] = []
    tier = PlantedTier()

    async def run(simulation: ClientSimulation) -> None:
        nonlocal tier
        simulations.append(simulation)
        tier = prepare(simulation)
        storage = VanishingStorage()
        storage.objects = tier.storage.objects
        result = await check(simulation, storage)
        assert result.faults == []
        assert len(storage.objects) == 5

    simulate(run)


@run_with(simulate)
async def test_what_is_copied_and_deleted_locally_after_the_metadata_was_read_is_no_gap(
    simulation: ClientSimulation, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = {EARLIEST: 0, EARLIEST_LOCAL: 60}
    read_on = TierView.read_on

    async def read_before_the_copy(view: TierView, *args: OnProgress) -> None:
        await read_on(view, *args)
        starts[EARLIEST_LOCAL] = 75

    async def answer(
        _admin: Admin, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int | None]:
        return {each: starts[timestamp] for each in partitions if each.topic == "orders"}

    monkeypatch.setattr(TierView, "read_on", read_before_the_copy)
    monkeypatch.setattr("crabka.remote_topic.tier_check.offsets_at", answer)

    tier = prepare(simulation)
    assert (await check(simulation, tier.storage)).faults == []
    assert kinds(await check(simulation, tier.storage)) == [TierFaultKind.GAP], "60..74 stay away"


@run_with(simulate)
async def test_worst_faults_come_first(simulation: ClientSimulation, /) -> None:
    tier = prepare(simulation)
    tier.storage.objects["readme"] = b""
    tier.add(batches(100, 1), [(0, 0)], partition=tier.segments[0].topic_id_partition)
    tier.remove(tier.segments[0], None)
    result = await check(simulation, tier.storage)
    severities = [fault.severity for fault in result.faults]
    assert severities == sorted(severities, reverse=True)
    assert len(set(severities)) == 3
    assert result.exit_code == 1


@run_with(simulate)
async def test_only_objects_of_named_topics_are_checked(simulation: ClientSimulation, /) -> None:
    orders, other = prepare(simulation), prepare(simulation, "orders-1")
    other.remove(other.segments[0], None)
    other.storage.objects |= orders.storage.objects
    result = await check(simulation, other.storage, names=("orders",))
    assert (result.faults, result.object_count) == ([], 10)
    assert kinds(await check(simulation, other.storage)).count(TierFaultKind.MISSING_OBJECT) == 2


class UnlistedStorage(RemoteStorageManager):
    """A storage that cannot list; one whose disks fail, if a test says so."""

    def __init__(self, inner: PlantedStorage, error: Exception | None = None) -> None:
        self._inner = inner
        self._error = error

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        return self._inner.copy_log_segment_data(metadata, data)

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        if self._error is not None:
            raise self._error
        return self._inner.fetch_log_segment(metadata, start, end)

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        if self._error is not None:
            raise self._error
        return self._inner.stream_log_segment(metadata, start, end)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return self._inner.fetch_index(metadata, index_type)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._inner.delete_log_segment_data(metadata)


@run_with(simulate)
async def test_a_storage_that_cannot_list_is_asked_for_every_segment(simulation: ClientSimulation, /) -> None:
    tier = prepare(simulation)
    result = await check(simulation, UnlistedStorage(tier.storage), reads=False)
    assert (result.faults, result.object_count) == ([], None)
    tier.remove(tier.segments[0], IndexType.OFFSET)
    assert kinds(await check(simulation, UnlistedStorage(tier.storage), reads=False)) == [TierFaultKind.MISSING_OBJECT]


@run_with(simulate)
async def test_a_store_that_cannot_be_read_is_no_verdict(simulation: ClientSimulation, /) -> None:
    tier = prepare(simulation)
    result = await check(simulation, UnlistedStorage(tier.storage, RemoteBackendError("it hangs")))
    assert set(kinds(result)) == {TierFaultKind.UNREADABLE}
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([TierFaultKind.LATE_EVENT], 0),
        ([TierFaultKind.ORPHAN_OBJECT], 1),
        ([TierFaultKind.UNREADABLE], 2),
        ([TierFaultKind.UNREADABLE, TierFaultKind.LATE_EVENT], 2),
        ([TierFaultKind.UNREADABLE, TierFaultKind.GAP], 1),
    ],
)
def test_exit_codes(found: list[TierFaultKind], code: int) -> None:
    assert CheckResult(faults=[TierFault(kind=kind, detail="") for kind in found]).exit_code == code


@run_with(simulate)
async def test_a_store_that_refuses_to_delete_leaves_the_fault(simulation: ClientSimulation, /) -> None:
    class ReadOnlyStorage(PlantedStorage):
        """May not delete."""

        def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
            raise RemoteBackendError("access denied")

    tier = prepare(simulation)
    tier.add(batches(100, 1), [(0, 0)], partition=tier.segments[0].topic_id_partition)
    storage = ReadOnlyStorage()
    storage.objects = tier.storage.objects
    options = CheckOptions(grace_ms=0, delete_orphans=True)
    result = await check(simulation, storage, options)
    assert (kinds(result), result.deleted) == ([TierFaultKind.ORPHAN_OBJECT], [])
    assert result.not_deleted == "access denied"
