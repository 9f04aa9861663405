from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crabka._kio import ErrorCode
from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetch_messages import FetchAnswer
from crabka.clients.isolation import AbortedSpan
from crabka.clients.offsets import LATEST
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.log.checkpoints import encode_epochs
from crabka.log.producer_snapshots import encode_snapshot
from crabka.log.producer_state import ProducerEntry
from crabka.log.txn_index import AbortedTransaction
from crabka.records.header import iter_headers
from crabka.records.rewrite import with_log_append_time
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.spark.broker_session import BrokerSession
from crabka.spark.errors import DataLossError, SegmentVanishedError, TierReadError
from crabka.spark.plan import leader_aborts
from crabka.spark.plan.catalog import TierCatalog
from crabka.spark.plan.index_files import SegmentOffsets
from crabka.spark.plan.planner import plan_offsets, plan_read
from crabka.spark.plan.ranges import AbortedSpans, ReadPlan, TierRange
from crabka.spark.plan.segment_objects import SegmentObjects
from crabka.spark.plan.snapshot_catalog import write_snapshot_file
from crabka.spark.source.options import SourceOptions
from tests.support.planned_cluster import LeaderSession, committed_options, plan_with
from tests.support.planted_tier import (
    FIRST_TIMESTAMP_MS,
    ORDERS,
    PRODUCER_ID,
    PlantedTier,
    batches,
    transaction,
    two_segments,
)
from tests.support.remote_segments import remote_segment
from tests.support.scale import soaking
from tests.support.tier_stores import write_tier

O0 = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))


def streaming_options(uri: str) -> SourceOptions:
    return SourceOptions.parse({"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"}, streaming=True)


def options(uri: str, **more: str) -> SourceOptions:
    given = {"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"}
    named = given | {key.replace("__", "."): value for key, value in more.items()}
    return SourceOptions.parse(named, streaming=False)


def at(timestamp_ms: int) -> str:
    return f"'{datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat()}'"


def spans(plan: ReadPlan) -> list[tuple[int, int]]:
    return [(each.start_offset, each.end_offset) for split in plan.splits for each in split.ranges]


def aborted_by_start(plan: ReadPlan) -> dict[int, AbortedSpans | None]:
    """Return the aborted transactions of what is read from the tier, by the offsets where ranges begin."""
    ranges = [each for split in plan.splits for each in split.ranges if isinstance(each, TierRange)]
    return {each.start_offset: each.aborted for each in ranges}


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


def test_filters_prune_segments_and_parts_of_them(tmp_path: Path) -> None:
    uri = write_tier(two_segments(), tmp_path)
    by_offset = plan_read(options(uri, where="offset >= 35"))
    assert (spans(by_offset), by_offset.report.pruned) == ([(35, 60)], 1)
    by_time = plan_read(options(uri, where=f"timestamp >= {at(FIRST_TIMESTAMP_MS + 55)}"))
    assert by_time.report.pruned == 1
    ((start, end),) = spans(by_time)
    assert 30 < start <= 55 < end == 60
    assert plan_read(options(uri, where="topic = 'x'")).splits == ()
    assert plan_read(options(uri, where="partition = 5")).report.pruned == 2


def test_times_that_go_down_again_are_not_pruned_away(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    last = tier.add(batches(10, 2), [(0, 0)])
    # CreateTime may be out of order: the upper bound says nothing about segments that begin later.
    early = f"timestamp <= {at(FIRST_TIMESTAMP_MS + 1)}"
    assert spans(plan_read(options(write_tier(tier, tmp_path), where=early))) == [(0, 10), (10, last.end_offset + 1)]


def test_what_brokers_stamped_later_is_pruned(tmp_path: Path) -> None:
    tier = PlantedTier()
    for start in (0, 5, 10, 15):
        tier.add(with_log_append_time(batches(start, 1), FIRST_TIMESTAMP_MS + start), [(0, 0)])
    early = f"timestamp <= {at(FIRST_TIMESTAMP_MS + 6)}"
    plan = plan_read(options(write_tier(tier, tmp_path), where=early))
    # The last one stays: other batches may follow its first one.
    assert (spans(plan), plan.report.pruned) == ([(0, 5), (5, 10), (15, 20)], 1)


def test_a_segment_is_judged_by_the_one_that_follows_in_the_log(tmp_path: Path) -> None:
    tier = PlantedTier()
    late = FIRST_TIMESTAMP_MS + 1_000
    # The topic went to times of producers within the first segment, and back with the third.
    stamped = b"".join(with_log_append_time(batches(start, 1), late) for start in (0, 5))
    tier.add(stamped + batches(10, 1), [(0, 0)])
    tier.add(batches(15, 1), [(0, 0)])
    tier.add(with_log_append_time(batches(20, 1), late + 1), [(0, 0)])
    chosen = f"timestamp BETWEEN {at(FIRST_TIMESTAMP_MS + 100)} AND {at(FIRST_TIMESTAMP_MS + 500)}"
    plan = plan_read(options(write_tier(tier, tmp_path), where=chosen))
    assert spans(plan) == [(0, 15), (20, 25)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": '{"orders":{"0":-2,"1":0}}'}, "names orders-1, which is not"),
        ({"startingOffsets": '{"other":{"0":0}}'}, "lacks orders-0; use -1"),
        (
            {"startingOffsets": '{"orders":{"0":61}}', "endingTimestamp": str(1 << 50)},
            "starting offset 61 of orders-0 is behind the ending offset 60",
        ),
        ({"startingTimestamp": str(1 << 50)}, "no record of orders-0 is of"),
        ({"subscribe": "nothing"}, "the tier has no topic nothing"),
    ],
)
def test_what_cannot_be_planned_is_told(tmp_path: Path, more: dict[str, str], message: str) -> None:
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


def test_a_time_behind_an_open_transaction_has_no_match_yet(tmp_path: Path) -> None:
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


def test_a_time_that_nobody_reached_may_mean_the_end(tmp_path: Path) -> None:
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
    tier.remove(gap, IndexType.OFFSET)
    uri = write_tier(tier, tmp_path)
    with pytest.raises(DataLossError, match=r"offsets 30 to 39 of orders-0 are not in the tier; compaction may have"):
        plan_read(options(uri))
    plan = plan_read(options(uri, failOnDataLoss="false"))
    assert spans(plan) == [(20, 30), (40, 50)]
    assert len(plan.report.ignored) == 1
    with pytest.raises(DataLossError, match="offsets 3 to 19 of orders-0 are gone"):
        plan_read(options(uri, startingOffsets='{"orders":{"0":3}}'))
    with pytest.raises(DataLossError, match="offsets 50 to 98 of orders-0 are not there"):
        plan_read(options(uri, endingOffsets='{"orders":{"0":99}}'))


def test_known_offsets_are_planned(tmp_path: Path) -> None:
    chosen = streaming_options(write_tier(two_segments(), tmp_path))
    assert spans(plan_offsets(chosen, {O0: 10}, {O0: 20})) == [(10, 20)]
    assert spans(plan_offsets(chosen, {O0: 40}, None)) == [(40, 60)]
    assert spans(plan_offsets(chosen, {}, None)) == [(0, 30), (30, 60)]
    with pytest.raises(DataLossError, match="orders-3 does not exist any more"):
        plan_offsets(chosen, {O0: 0, TopicPartition("orders", 3): 5}, {O0: 20})
    with pytest.raises(DataLossError, match="orders-7 does not exist any more"):
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


def test_an_end_that_went_back_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.spark.plan.context.BrokerSession", LaggingSession)
    t0 = TopicPartition("t", 0)
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [(None, b"x")] * 9, partition=0)
        given = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "t",
            "fetchOffset.retryIntervalMs": "1",
        }
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


def test_a_partition_that_is_new_to_a_query_should_begin_with_its_first_record(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(20, 2), [(0, 0)])
    uri = write_tier(tier, tmp_path)
    with pytest.raises(DataLossError, match="offsets 0 to 19 of orders-0, which is new to the query, are gone"):
        plan_offsets(streaming_options(uri), {}, {O0: 30})
    # A batch job that begins anew takes what there is.
    assert spans(plan_offsets(options(uri), {}, None)) == [(20, 30)]


def test_committed_reads_know_aborted_transactions(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    tier.add(batches(10, 2), [(0, 0)], aborted=[AbortedTransaction(7, 3, 12, 13)])
    uri = write_tier(tier, tmp_path)
    (split,) = plan_read(options(uri, isolation__level="read_committed")).splits
    assert [each.aborted for each in split.ranges if isinstance(each, TierRange)] == [((7, 3, 12),), ((7, 3, 12),)]
    (split,) = plan_read(options(uri)).splits
    assert [each.aborted for each in split.ranges if isinstance(each, TierRange)] == [None, None]


def test_a_marker_in_a_segment_that_is_pruned_aborts(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(with_log_append_time(batches(0, 1), FIRST_TIMESTAMP_MS), [(0, 0)])
    aborted = [AbortedTransaction(7, 3, 6, 7)]
    tier.add(with_log_append_time(batches(5, 1), FIRST_TIMESTAMP_MS + 5), [(0, 0)], aborted=aborted)
    tier.add(with_log_append_time(batches(10, 1), FIRST_TIMESTAMP_MS + 10), [(0, 0)])
    early = f"timestamp <= {at(FIRST_TIMESTAMP_MS + 4)}"
    plan = plan_read(options(write_tier(tier, tmp_path), isolation__level="read_committed", where=early))
    assert aborted_by_start(plan) == {0: ((7, 3, 6),), 10: ()}


def test_a_tail_that_does_not_count_aborts_nothing(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 4), [(0, 0)], aborted=[AbortedTransaction(7, 15, 17, 18)])
    tier.add(batches(15, 1, epoch=1), [(0, 0), (1, 15)])
    plan = plan_read(options(write_tier(tier, tmp_path), isolation__level="read_committed"))
    assert aborted_by_start(plan) == {0: (), 15: ()}


def open_at_the_end_of_the_tier() -> tuple[PlantedTier, LeaderSession]:
    """The tier ends with the data of a transaction, 10..11; the leader alone has its abort marker, 12."""
    aborted = transaction(10, committed=False)
    (_, (marker_at, _)) = iter_headers(aborted)
    tier = PlantedTier()
    tier.add(batches(0, 2) + aborted[:marker_at], [(0, 0)])
    log = batches(0, 2) + aborted + batches(13, 2)
    return tier, LeaderSession(log, aborted={AbortedSpan(PRODUCER_ID, 10): 12}, last_stable_offset=23)


@pytest.mark.parametrize("last_stable_offset", [12, 13, 23])
@pytest.mark.parametrize("mode", ["auto", "tier"])
def test_the_leader_tells_of_markers_behind_the_tier(
    mode: str, last_stable_offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, session = open_at_the_end_of_the_tier()
    session.last_stable_offset = last_stable_offset
    plan_with(monkeypatch, session, tier)
    plan = plan_read(committed_options(read__mode=mode))
    assert aborted_by_start(plan) == {0: ((PRODUCER_ID, 10, 11),)}


def test_a_leader_that_does_not_tell_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, session = open_at_the_end_of_the_tier()
    silent = [
        FetchAnswer(ErrorCode.not_leader_or_follower, -1, -1, (), b""),
        FetchAnswer(ErrorCode.none, 9, 0, (), b""),
    ]
    plan_with(monkeypatch, session, tier)
    monkeypatch.setattr(leader_aborts, "_PAUSE_S", 0)
    session.faults = list(silent)
    assert aborted_by_start(plan_read(committed_options())) == {0: ((PRODUCER_ID, 10, 11),)}
    session.faults = list(silent)
    with pytest.raises(TierReadError, match="did not tell in 0 ms which transactions"):
        plan_read(committed_options(kafkaConsumer__pollTimeoutMs="0"))


def test_the_leader_tells_of_markers_in_gaps_of_the_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, session = open_at_the_end_of_the_tier()
    # The same producer commits behind the gap.
    later = transaction(23, committed=True)
    tier.add(later, [(0, 0)])
    log = b"".join(data for _, data in session.batches) + later
    session = LeaderSession(log, aborted=session.aborted, last_stable_offset=26)
    plan_with(monkeypatch, session, tier)
    plan = plan_read(committed_options())
    assert spans(plan) == [(0, 12), (23, 26), (12, 23)]
    assert aborted_by_start(plan) == {0: ((PRODUCER_ID, 10, 11),), 23: ()}
    assert session.fetched == [11, 25]


def test_leaders_are_asked_again_while_they_move(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, session = open_at_the_end_of_the_tier()
    session.failing = True
    plan_with(monkeypatch, session, tier)
    late = f"timestamp >= {at(FIRST_TIMESTAMP_MS + 3)}"
    plan = plan_read(committed_options(fetchOffset__retryIntervalMs="0", where=late))
    assert [end for _, end in spans(plan)] == [12, 23]


def test_an_exported_snapshot_is_as_good_as_a_listing(tmp_path: Path) -> None:
    tier = two_segments()
    uri = write_tier(tier, tmp_path)
    write_snapshot_file(f"{tmp_path}/export", TierCatalog({ORDERS: tier.segments}))
    chosen = options(uri, tier__metadata="snapshot", tier__snapshot=f"{tmp_path}/export")
    assert plan_read(chosen).splits == plan_read(options(uri)).splits


def test_brokers_tell_where_a_time_begins() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            for number in (0, 1, 2, 7, 3, 5, 9):
                producer.send("t", b"x", partition=0, timestamp=1_000 + number).result()
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
        chosen = SourceOptions.parse(given, streaming=False)
        assert spans(plan_read(chosen)) == [(0, 7)]
        for first_ms, start in ((1_003, 2), (1_008, 3), (1_010, 6)):
            late = SourceOptions.parse(given | {"where": f"timestamp >= {at(first_ms)}"}, streaming=False)
            assert spans(plan_read(late)) == [(start, 7)]
        # Nobody has reached that time, which not every broker knows for sure.
        never = SourceOptions.parse(given | {"where": f"timestamp >= {at(9_999)}"}, streaming=False)
        assert spans(plan_read(never)) == [(0, 7)]


def test_a_segment_that_vanishes_while_it_is_planned_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = two_segments()
    uri = write_tier(tier, tmp_path)
    chosen = options(uri, startingOffsets='{"orders":{"0":-2}}', endingOffsets='{"orders":{"0":40}}')
    asked: list[str] = []
    whole = SegmentObjects.offset_index

    def once_gone(self: SegmentObjects, segment: RemoteLogSegmentMetadata) -> SegmentOffsets:
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


def test_more_tasks_can_be_asked_for_than_there_are_segments(tmp_path: Path) -> None:
    tier = PlantedTier()
    for start in range(0, 400, 100):
        tier.add(batches(start, 20), [(0, 0)])
    uri = write_tier(tier, tmp_path)
    plan = plan_read(options(uri, minPartitions="16"))
    assert len(plan.splits) == 16
    assert spans(plan) == [(start, start + 25) for start in range(0, 400, 25)]
    # What is not read of a segment does not count.
    part = plan_read(options(uri, minPartitions="16", startingOffsets='{"orders":{"0":368}}'))
    assert [end - start for start, end in spans(part)] == [2] * 16


def test_many_large_segments_become_few_tasks(tmp_path: Path) -> None:
    tier = two_segments()
    uri = write_tier(tier, tmp_path)
    count = 100_000 if soaking() else 5_000
    many = [
        replace(remote_segment(n * 10, n * 10 + 9, partition=ORDERS, size=1 << 30), txn_index_empty=True)
        for n in range(count)
    ]
    write_snapshot_file(f"{tmp_path}/export", TierCatalog({ORDERS: many}))
    epochs = tmp_path / "kafka-tiered-storage" / object_path(many[-1], IndexType.LEADER_EPOCH)
    epochs.write_bytes(encode_epochs([(0, 0)]))
    chosen = options(uri, tier__metadata="snapshot", tier__snapshot=f"{tmp_path}/export", maxTasks=str(count // 10))
    plan = plan_read(chosen)
    assert len(plan.splits) <= count // 10
    assert plan.report.segments == count
