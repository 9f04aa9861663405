from __future__ import annotations

import pytest

from crabka.kraft.actions import AdvanceHighWatermark, AppendRecords, Send, SettleLoss, TruncateLog, VotersChange, Warn
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import LeaderHint, MetadataFetchRequest, MetadataFetchResponse
from crabka.kraft.roles import RoleName
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry
from tests.support.quorum.kraft_bench import CLUSTER, OK, CoreBench, fetched, voter, voter_set

EPOCH = 3


def following(*entries: Entry, voters: tuple[int, ...] = (1, 2, 3)) -> tuple[CoreBench, Send]:
    bench = CoreBench(voters=voters, entries=entries)
    bench.follow(2, EPOCH)
    return bench, bench.sent(MetadataFetchRequest)[0][0]


def test_a_fetch_reports_where_the_log_ends() -> None:
    bench, send = following(Entry(1, 0), Entry(2, 1))
    request = send.request
    assert isinstance(request, MetadataFetchRequest)
    assert (request.cluster_id, request.replica, request.epoch) == (CLUSTER, voter(1).key, EPOCH)
    assert (request.fetch_offset, request.last_fetched_epoch, request.high_watermark) == (2, 2, -1)
    assert send.to.endpoints == voter(2).endpoints
    assert bench.settings.fetch_max_wait_ms == request.max_wait_ms


def test_records_are_appended_and_the_next_fetch_follows() -> None:
    bench, send = following()
    bench.respond(send, fetched(EPOCH, 2, Entry(3, 7), Entry(3, 8), high_watermark=1))
    assert bench.log.end_offset == 2
    assert bench.core.high_watermark == 1
    assert bench.sent(MetadataFetchRequest)[0][1].fetch_offset == 2


def test_no_fetch_leaves_before_the_records_are_durable() -> None:
    bench, send = following()
    bench.syncs = False
    bench.respond(send, fetched(EPOCH, 2, Entry(3, 7)))
    assert bench.of(AppendRecords)
    assert not bench.sent(MetadataFetchRequest)
    bench.flush()
    assert bench.sent(MetadataFetchRequest)[0][1].fetch_offset == 1


def test_the_high_watermark_is_bounded_by_the_own_log_and_never_goes_back() -> None:
    bench, send = following()
    bench.respond(send, fetched(EPOCH, 2, Entry(3, 7), high_watermark=9))
    assert bench.core.high_watermark == 1
    send, request = bench.sent(MetadataFetchRequest)[0]
    assert request.high_watermark == 1
    bench.respond(send, fetched(EPOCH, 2, high_watermark=0))
    assert bench.core.high_watermark == 1
    assert not bench.of(AdvanceHighWatermark)


def test_a_diverging_log_is_cut_and_its_voters_with_it() -> None:
    bench, send = following(Entry(1, 0))
    bench.respond(send, fetched(EPOCH, 2, Entry(3, VotersChange(voter_set(2, 3)))))
    assert not bench.core.is_voter
    send, _ = bench.sent(MetadataFetchRequest)[0]
    diverging = MetadataFetchResponse(error=OK, leader=LeaderHint(EPOCH, 2), diverging=OffsetAndEpoch(1, 1))
    bench.respond(send, diverging)
    assert bench.of(TruncateLog) == [TruncateLog(1)]
    assert bench.core.is_voter
    assert bench.sent(MetadataFetchRequest)[0][1].fetch_offset == 1


@pytest.mark.parametrize("diverging", [OffsetAndEpoch(0, 0), OffsetAndEpoch(-(1 << 63), 3)])
def test_a_leader_that_wants_committed_records_cut_is_not_followed(diverging: OffsetAndEpoch) -> None:
    bench, send = following()
    bench.respond(send, fetched(EPOCH, 2, Entry(3, 7), high_watermark=1))
    send, _ = bench.sent(MetadataFetchRequest)[0]
    bench.pass_time(bench.settings.fetch_timeout_ms - 1)
    bench.respond(send, MetadataFetchResponse(error=OK, leader=LeaderHint(EPOCH, 2), diverging=diverging))
    assert not bench.of(TruncateLog)
    assert "below the high watermark" in bench.of(Warn)[0].message
    bench.pass_time(1)
    assert bench.role() is RoleName.PROSPECTIVE


@pytest.mark.parametrize(
    "snapshot", [OffsetAndEpoch(7, EPOCH + 1), OffsetAndEpoch(-7, 1), OffsetAndEpoch((1 << 63) - 1, 1)]
)
def test_a_snapshot_that_cannot_be_is_not_fetched(snapshot: OffsetAndEpoch) -> None:
    bench, send = following()
    bench.respond(send, MetadataFetchResponse(error=OK, leader=LeaderHint(EPOCH, 2), snapshot=snapshot))
    assert not bench.of(Send)
    bench.pass_time(bench.settings.retry_backoff_ms)
    assert bench.sent(MetadataFetchRequest)


def test_a_leader_whose_records_are_refused_is_left_alone_and_does_not_count_as_in_contact() -> None:
    bench, send = following()
    bench.refuses = True
    asked, fetches = bench.now_ms, 0
    for _ in range(bench.settings.fetch_timeout_ms // 10):
        bench.pass_time(10)
        if fetches == 0 or bench.sent(MetadataFetchRequest):
            send = bench.sent(MetadataFetchRequest)[0][0] if fetches else send
            fetches += 1
            bench.respond(send, fetched(EPOCH, 2, Entry(3, 7)))
            assert not bench.of(Send)
    assert 2 < fetches < 10
    assert bench.role() is RoleName.PROSPECTIVE
    assert bench.now_ms == asked + bench.settings.fetch_timeout_ms


def test_an_absurd_epoch_in_an_answer_is_ignored() -> None:
    bench, send = following()
    bench.respond(send, fetched(MAX_EPOCH, 3, Entry(9, 1)))
    assert (bench.core.epoch, bench.state.leader_id) == (EPOCH, 2)
    assert "too far ahead" in bench.of(Warn)[0].message


def test_an_answer_of_a_newer_epoch_leads_to_its_leader() -> None:
    bench, send = following()
    bench.respond(send, fetched(9, 3, Entry(9, 1)))
    assert (bench.role(), bench.state.leader_id, bench.core.epoch) == (RoleName.FOLLOWER, 3, 9)


def test_an_old_answer_is_ignored() -> None:
    bench, send = following()
    bench.respond(send, fetched(EPOCH - 1, 3, Entry(2, 1)))
    assert bench.log.end_offset == 0
    assert bench.state.leader_id == 2
    bench.respond(send, fetched(EPOCH, 2, Entry(3, 1)))
    assert bench.log.end_offset == 0


def test_an_error_pauses_the_fetch() -> None:
    bench, send = following()
    bench.respond(send, MetadataFetchResponse(error=ErrorCode.not_leader_or_follower, leader=LeaderHint(EPOCH, 2)))
    assert not bench.sent(MetadataFetchRequest)
    bench.pass_time(bench.settings.retry_backoff_ms)
    assert bench.sent(MetadataFetchRequest)


def test_silence_of_the_leader_leads_to_pre_votes() -> None:
    bench, send = following()
    bench.pass_time(bench.settings.fetch_timeout_ms - 1)
    bench.respond(send, fetched(EPOCH, 2))
    bench.pass_time(bench.settings.fetch_timeout_ms - 1)
    assert bench.role() is RoleName.FOLLOWER
    bench.pass_time(1)
    assert bench.role() is RoleName.PROSPECTIVE


def test_an_observer_asks_other_voters_when_its_leader_is_silent() -> None:
    bench, send = following(voters=(2, 3))
    bench.fail(send)
    bench.pass_time(bench.settings.fetch_timeout_ms)
    send, _ = bench.sent(MetadataFetchRequest)[0]
    bench.respond(send, MetadataFetchResponse(error=ErrorCode.fenced_leader_epoch, leader=LeaderHint(8, 3)))
    assert (bench.role(), bench.state.leader_id) == (RoleName.FOLLOWER, 3)


def losing(durable_end: OffsetAndEpoch) -> tuple[CoreBench, Send]:
    bench = CoreBench(entries=(Entry(1, 0),), durable_end=durable_end)
    bench.follow(2, EPOCH)
    return bench, bench.sent(MetadataFetchRequest)[0][0]


def test_a_leader_brings_back_what_was_lost() -> None:
    bench, send = losing(OffsetAndEpoch(3, 1))
    bench.syncs = False
    bench.respond(send, fetched(EPOCH, 2, Entry(1, 1), Entry(1, 2)))
    assert bench.core.lost_end is not None
    bench.flush()
    assert bench.core.lost_end is None
    assert bench.of(SettleLoss) == [SettleLoss(OffsetAndEpoch(3, 1))]


def test_what_was_never_committed_need_not_come_back() -> None:
    bench, send = losing(OffsetAndEpoch(9, 1))
    bench.respond(send, fetched(EPOCH, 2, Entry(1, 1)))
    assert bench.core.lost_end is not None
    send, _ = bench.sent(MetadataFetchRequest)[0]
    bench.respond(send, fetched(EPOCH, 2, high_watermark=2))
    assert bench.core.lost_end is None


def test_a_leader_whose_high_watermark_lies_further_on_is_not_done_yet() -> None:
    bench, send = losing(OffsetAndEpoch(9, 1))
    bench.respond(send, fetched(EPOCH, 2, Entry(1, 1), high_watermark=8))
    assert bench.core.lost_end is not None
    send, _ = bench.sent(MetadataFetchRequest)[0]
    bench.respond(send, fetched(EPOCH, 2, Entry(3, 2), high_watermark=8))
    assert bench.core.lost_end is None
