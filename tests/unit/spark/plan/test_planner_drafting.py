"""What is read of the tier and what of brokers, and which transactions count as aborted there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetcher.isolation import AbortedSpan
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.embedded import Broker
from crabka.formats.checkpoints import encode_epochs
from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.records.rewrite import with_log_append_time
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType
from crabka.spark.errors import TierReadError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import transactions
from crabka.spark.plan.catalog.segments import TierCatalog
from crabka.spark.plan.catalog.snapshot_catalog import write_snapshot_file
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import AbortedSpans, ReadPlan, TierRange
from tests.support.clusters.planned import LeaderSession, committed_options, plan_with
from tests.support.scale import soaking
from tests.support.tiers.plans import at, options, spans
from tests.support.tiers.planted import (
    FIRST_TIMESTAMP_MS,
    ORDERS,
    PRODUCER_ID,
    PlantedTier,
    batches,
    transaction,
    two_segments,
)
from tests.support.tiers.segment_metadata import remote_segment
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

O0 = TopicPartition("orders", 0)


def aborted_by_start(plan: ReadPlan) -> dict[int, AbortedSpans | None]:
    """Return the aborted transactions of what is read from the tier, by the offsets where ranges begin."""
    ranges = [each for split in plan.splits for each in split.ranges if isinstance(each, TierRange)]
    return {each.start_offset: each.aborted for each in ranges}


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
def test_the_leader_reports_markers_after_the_tier(
    mode: str, last_stable_offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier, session = open_at_the_end_of_the_tier()
    session.last_stable_offset = last_stable_offset
    plan_with(monkeypatch, session, tier)
    plan = plan_read(committed_options(read__mode=mode))
    assert aborted_by_start(plan) == {0: ((PRODUCER_ID, 10, 11),)}


def test_a_leader_without_an_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, session = open_at_the_end_of_the_tier()
    silent = [
        FetchAnswer(ErrorCode.not_leader_or_follower, -1, -1, (), b""),
        FetchAnswer(ErrorCode.none, 9, 0, (), b""),
    ]
    plan_with(monkeypatch, session, tier)
    monkeypatch.setattr(transactions, "_PAUSE_S", 0)
    session.faults = list(silent)
    assert aborted_by_start(plan_read(committed_options())) == {0: ((PRODUCER_ID, 10, 11),)}
    session.faults = list(silent)
    with pytest.raises(TierReadError, match="did not say in 0 ms which transactions"):
        plan_read(committed_options(kafkaConsumer__pollTimeoutMs="0"))


def test_the_leader_reports_markers_in_gaps_of_the_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, session = open_at_the_end_of_the_tier()
    # The same producer commits after the gap.
    later = transaction(23, committed=True)
    tier.add(later, [(0, 0)])
    log = b"".join(data for _, data in session.batches) + later
    session = LeaderSession(log, aborted=session.aborted, last_stable_offset=26)
    plan_with(monkeypatch, session, tier)
    plan = plan_read(committed_options())
    assert spans(plan) == [(0, 12), (23, 26), (12, 23)]
    assert aborted_by_start(plan) == {0: ((PRODUCER_ID, 10, 11),), 23: ()}
    assert session.fetched == [11, 25]


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


def test_leaders_are_asked_again_while_they_move(monkeypatch: pytest.MonkeyPatch) -> None:
    tier, session = open_at_the_end_of_the_tier()
    session.failing = True
    plan_with(monkeypatch, session, tier)
    late = f"timestamp >= {at(FIRST_TIMESTAMP_MS + 3)}"
    plan = plan_read(committed_options(fetchOffset__retryIntervalMs="0", where=late))
    assert [end for _, end in spans(plan)] == [12, 23]


def test_brokers_report_where_a_time_begins() -> None:
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
        # No record has reached that time, which not every broker knows for sure.
        never = SourceOptions.parse(given | {"where": f"timestamp >= {at(9_999)}"}, streaming=False)
        assert spans(plan_read(never)) == [(0, 7)]
