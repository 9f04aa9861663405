from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetcher.offsets import LATEST
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.formats.offset_index import OffsetIndex
from crabka.ids import TopicPartition
from crabka.log.producers.producer_state import ProducerEntry
from crabka.log.producers.snapshots import encode_snapshot
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.errors import DataLossError, SegmentVanishedError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierCatalog
from crabka.spark.plan.catalog.snapshot_catalog import write_snapshot_file
from crabka.spark.plan.history.divergence import LogCutError
from crabka.spark.plan.planner import plan_offsets, plan_read
from tests.support.tiers.plans import options, spans
from tests.support.tiers.planted import (
    FIRST_TIMESTAMP_MS,
    ORDERS,
    PlantedTier,
    batches,
    two_segments,
)
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

O0 = TopicPartition("orders", 0)


def streaming_options(uri: str) -> SourceOptions:
    return SourceOptions.parse({"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"}, streaming=True)


def test_a_whole_tier_is_planned(tmp_path: Path) -> None:
    plan = plan_read(options(write_tier(two_segments(), tmp_path)))
    assert spans(plan) == [(0, 30), (30, 60)]
    assert plan.ranges == {("orders", 0): (0, 60)}
    assert (plan.report.segments, plan.report.pruned) == (2, 0)
    assert len(plan.splits) == 1


def test_offsets_and_times_cut_the_plan(tmp_path: Path) -> None:
    uri = write_tier(two_segments(), tmp_path)
    plan = plan_read(options(uri, startingOffsets='{"orders":{"0":12}}', endingOffsets='{"orders":{"0":33}}'))
    assert spans(plan) == [(12, 30), (30, 33)]
    assert plan.report.bytes < sum(segment.segment_size_bytes for segment in two_segments().segments)
    plan = plan_read(options(uri, startingTimestamp=str(FIRST_TIMESTAMP_MS + 31), endingTimestamp=str(1 << 50)))
    assert spans(plan) == [(31, 60)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": '{"orders":{"0":-2,"1":0}}'}, "names orders-1, which is not"),
        ({"startingOffsets": '{"other":{"0":0}}'}, "lacks orders-0; use -1"),
        (
            {"startingOffsets": '{"orders":{"0":61}}', "endingTimestamp": str(1 << 50)},
            "starting offset 61 of orders-0 is after the ending offset 60",
        ),
        ({"startingTimestamp": str(1 << 50)}, "no record of orders-0 is of"),
        ({"subscribe": "nothing"}, "the tier has no topic nothing"),
    ],
)
def test_what_cannot_be_planned_is_reported(tmp_path: Path, more: dict[str, str], message: str) -> None:
    uri = write_tier(two_segments(), tmp_path)
    with pytest.raises(ConfigError, match=message):
        plan_read(options(uri, **more))


@pytest.mark.parametrize(
    ("start", "end"),
    [("99", "-1"), ("-2", "3"), ("3", "3"), ("99", "99")],
)
def test_ranges_without_offsets_have_no_rows_wherever_they_lie(tmp_path: Path, start: str, end: str) -> None:
    tier = PlantedTier()
    tier.add(batches(20, 2), [(0, 0)])
    uri = write_tier(tier, tmp_path)
    limits = {"startingOffsets": f'{{"orders":{{"0":{start}}}}}', "endingOffsets": f'{{"orders":{{"0":{end}}}}}'}
    assert plan_read(options(uri, **limits)).splits == ()


def test_earliest_and_latest_are_compared_with_no_offset(tmp_path: Path) -> None:
    uri = write_tier(two_segments(), tmp_path)
    assert plan_read(options(uri, startingOffsets='{"orders":{"0":61}}')).splits == ()
    tier = PlantedTier()
    tier.add(batches(20, 2), [(0, 0)])
    uri = write_tier(tier, tmp_path / "later")
    assert plan_read(options(uri, endingOffsets='{"orders":{"0":3}}')).splits == ()


def open_transaction(tier: PlantedTier, segment: RemoteLogSegmentMetadata, first_offset: int) -> None:
    """Let a transaction be open at the end of a segment."""
    writer = ProducerEntry(5, 0)
    writer.txn_first_offset = first_offset
    tier.put(segment, IndexType.PRODUCER_SNAPSHOT, encode_snapshot([writer]))


def test_a_time_after_an_open_transaction_has_no_match_yet(tmp_path: Path) -> None:
    tier = two_segments()
    open_transaction(tier, tier.segments[1], 48)
    uri = write_tier(tier, tmp_path)
    at_50 = str(FIRST_TIMESTAMP_MS + 50)
    committed = {"isolation__level": "read_committed"}
    assert spans(plan_read(options(uri, **committed, endingTimestamp=at_50))) == [(0, 30), (30, 48)]
    with pytest.raises(ConfigError, match="no record of orders-0 is of"):
        plan_read(options(uri, **committed, startingTimestamp=at_50))
    lenient = committed | {"startingOffsetsByTimestampStrategy": "latest"}
    assert plan_read(options(uri, **lenient, startingTimestamp=at_50)).splits == ()


def test_a_transaction_that_is_older_than_the_tier_leaves_nothing_to_read(tmp_path: Path) -> None:
    tier = PlantedTier()
    open_transaction(tier, tier.add(batches(50, 4), [(0, 0)]), 10)
    plan = plan_read(options(write_tier(tier, tmp_path), isolation__level="read_committed"))
    assert (plan.splits, plan.ranges) == ((), {("orders", 0): (50, 50)})


def test_a_time_that_no_record_reached_may_mean_the_end(tmp_path: Path) -> None:
    more = {"startingTimestamp": str(1 << 50), "startingOffsetsByTimestampStrategy": "latest"}
    assert plan_read(options(write_tier(two_segments(), tmp_path), **more)).splits == ()


def test_a_pattern_without_match_has_no_rows(tmp_path: Path) -> None:
    uri = write_tier(two_segments(), tmp_path)
    chosen = SourceOptions.parse(
        {"subscribePattern": "zzz", "tier.uri": uri, "tier.metadata": "listing"}, streaming=False
    )
    assert plan_read(chosen).splits == ()


def test_what_is_not_there_is_a_loss(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(20, 2), [(0, 0)])
    gap = tier.add(batches(30, 2), [(0, 0)])
    tier.add(batches(40, 2), [(0, 0)])
    tier.storage.delete_log_segment_data(gap)
    uri = write_tier(tier, tmp_path)
    with pytest.raises(DataLossError, match=r"offsets 30 to 39 of orders-0 are not in the tier; compaction may have"):
        plan_read(options(uri))
    assert spans(plan_read(options(uri, failOnDataLoss="false"))) == [(20, 30), (40, 50)]
    with pytest.raises(DataLossError, match="offsets 3 to 19 of orders-0 are gone"):
        plan_read(options(uri, startingOffsets='{"orders":{"0":3}}'))
    with pytest.raises(DataLossError, match="offsets 50 to 98 of orders-0 are not there"):
        plan_read(options(uri, endingOffsets='{"orders":{"0":99}}'))


def test_known_offsets_are_planned(tmp_path: Path) -> None:
    chosen = streaming_options(write_tier(two_segments(), tmp_path))
    assert spans(plan_offsets(chosen, {O0: 10}, {O0: 20})) == [(10, 20)]
    assert spans(plan_offsets(chosen, {O0: 40}, None)) == [(40, 60)]
    assert spans(plan_offsets(chosen, {}, None)) == [(0, 30), (30, 60)]
    with pytest.raises(DataLossError, match="orders-3 no longer exists"):
        plan_offsets(chosen, {O0: 0, TopicPartition("orders", 3): 5}, {O0: 20})
    with pytest.raises(DataLossError, match="orders-7 no longer exists"):
        plan_offsets(chosen, {}, {TopicPartition("orders", 7): 5})
    with pytest.raises(DataLossError, match="created anew"):
        plan_offsets(chosen, {O0: 50}, {O0: 20})


class LaggingSession(BrokerSession):
    """Answers a few times as a new leader does that has not caught up."""

    lagging = 0

    def offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        found = super().offsets(timestamps, read_committed=read_committed)
        if LATEST in timestamps.values() and type(self).lagging:
            type(self).lagging -= 1
            return dict.fromkeys(found, 4)
        return found


@contextmanager
def nine_records() -> Iterator[dict[str, str]]:
    """Options for reading a topic `t` of one partition with nine records."""
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [(None, b"x")] * 9, partition=0)
        yield {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "t",
            "fetchOffset.retryIntervalMs": "1",
        }


def test_an_end_that_went_back_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.spark.plan.context.BrokerSession", LaggingSession)
    t0 = TopicPartition("t", 0)
    with nine_records() as given:
        stream = SourceOptions.parse(given, streaming=True)
        LaggingSession.lagging = 2
        assert spans(plan_offsets(stream, {t0: 2}, {t0: 8})) == [(2, 8)]
        # What a table has was read already.
        LaggingSession.lagging = 2
        assert spans(plan_offsets(SourceOptions.parse(given, streaming=False), {t0: 8}, None)) == [(8, 9)]
        LaggingSession.lagging = 3
        with pytest.raises(DataLossError, match="offsets 4 to 7 of t-0 are not there"):
            plan_offsets(stream, {t0: 2}, {t0: 8})
        # Spark commits the end of the batch whatever was read, so the task has to ask for all of it.
        LaggingSession.lagging = 3
        lenient = SourceOptions.parse(given | {"failOnDataLoss": "false"}, streaming=True)
        assert spans(plan_offsets(lenient, {t0: 2}, {t0: 8})) == [(2, 8)]


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_log_that_ends_before_what_was_read_was_cut(is_streaming: bool) -> None:
    t0 = TopicPartition("t", 0)
    with nine_records() as given:
        # A query is asked for the offsets up to the end that the log has now.
        ends = {t0: 9} if is_streaming else None
        with pytest.raises(LogCutError, match=r"t-0 was cut: .* before offset 20; .* differ from offset 9 on"):
            plan_offsets(SourceOptions.parse(given, streaming=is_streaming), {t0: 20}, ends)
        lenient = SourceOptions.parse(given | {"failOnDataLoss": "false"}, streaming=is_streaming)
        assert spans(plan_offsets(lenient, {t0: 20}, ends)) == []


def test_a_tier_that_ends_before_what_was_read_is_a_loss(tmp_path: Path) -> None:
    with pytest.raises(DataLossError, match="the tier ends at offset 60 of orders-0, before offset 70"):
        plan_offsets(streaming_options(write_tier(two_segments(), tmp_path)), {O0: 70}, {O0: 60})


def test_a_partition_that_is_new_to_a_query_should_begin_with_its_first_record(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(20, 2), [(0, 0)])
    uri = write_tier(tier, tmp_path)
    with pytest.raises(DataLossError, match="offsets 0 to 19 of orders-0, which is new to the query, are gone"):
        plan_offsets(streaming_options(uri), {}, {O0: 30})
    # A batch job that begins anew takes what there is.
    assert spans(plan_offsets(options(uri), {}, None)) == [(20, 30)]


def test_an_exported_snapshot_is_as_good_as_a_listing(tmp_path: Path) -> None:
    tier = two_segments()
    uri = write_tier(tier, tmp_path)
    write_snapshot_file(f"{tmp_path}/export", TierCatalog({ORDERS: tier.segments}))
    chosen = options(uri, tier__metadata="snapshot", tier__snapshot=f"{tmp_path}/export")
    assert plan_read(chosen).splits == plan_read(options(uri)).splits


def test_a_segment_that_vanishes_while_it_is_planned_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = two_segments()
    uri = write_tier(tier, tmp_path)
    chosen = options(uri, startingOffsets='{"orders":{"0":-2}}', endingOffsets='{"orders":{"0":40}}')
    asked: list[str] = []
    whole = SegmentObjects.offset_index

    def once_gone(self: SegmentObjects, segment: RemoteLogSegmentMetadata) -> OffsetIndex:
        asked.append(object_path(segment))
        if len(asked) == 1:
            raise SegmentVanishedError("it is gone")
        return whole(self, segment)

    monkeypatch.setattr(SegmentObjects, "offset_index", once_gone)
    assert spans(plan_read(chosen)) == [(0, 30), (30, 40)]
    assert len(asked) == 2
    tier_index = next((tmp_path / "kafka-tiered-storage").rglob("*30-*.index"))
    write_snapshot_file(f"{tmp_path}/export", TierCatalog({ORDERS: tier.segments}))
    tier_index.unlink()
    stale = options(
        uri, tier__metadata="snapshot", tier__snapshot=f"{tmp_path}/export", endingOffsets='{"orders":{"0":40}}'
    )
    with pytest.raises(SegmentVanishedError, match="though the metadata of the tier names it"):
        plan_read(stale)


def test_the_collector_rests_while_a_plan_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = write_tier(two_segments(), tmp_path)
    was_enabled: list[bool] = []
    epochs = SegmentObjects.epochs

    def watched(objects: SegmentObjects, segment: RemoteLogSegmentMetadata) -> tuple[tuple[int, int], ...]:
        was_enabled.append(gc.isenabled())
        return epochs(objects, segment)

    monkeypatch.setattr(SegmentObjects, "epochs", watched)
    assert spans(plan_read(options(uri)))
    assert was_enabled == [False]
    assert gc.isenabled()
