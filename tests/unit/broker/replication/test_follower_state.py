"""What a follower of a partition decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from crabka.broker.replication.follower_state import (
    AppendFetched,
    AskLeaderRange,
    AskLeaderTier,
    CutFollowerLog,
    FetchAnswered,
    FetchFailed,
    FetchPhase,
    FollowerAction,
    FollowerFetching,
    FollowerPosition,
    LeaderRangeKnown,
    LeaderTierKnown,
    LogBroken,
    LogChanged,
    LogRejected,
    RebuildFromTier,
    RestartLog,
    TakeLeaderOffsets,
)
from crabka.formats.leader_epochs import EpochEnd
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.protocol.error_codes import ErrorCode


@dataclass
class Log:
    log_end_offset: int = 8
    high_watermark: int = 3
    log_start_offset: int = 0
    last_epoch: int = 1
    epochs: LeaderEpochCache = field(default_factory=lambda: LeaderEpochCache([(0, 0), (1, 5)]))

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.lineage.end_offset_for(epoch, self.log_end_offset)


LOG = Log()


def following() -> FollowerFetching:
    return FollowerFetching(7, backoff_ms=100)


def answer(state: FollowerFetching, log: Log = LOG, now_ms: int = 0, **given: Any) -> list[FollowerAction]:
    return state.step(FetchAnswered(asked=state.position(log), **given), log, now_ms)


def test_a_follower_asks_from_its_end_and_reports_its_last_epoch() -> None:
    state = following()
    assert state.is_ready(0)
    assert state.position(LOG) == FollowerPosition(leader_epoch=7, fetch_offset=8, last_fetched_epoch=1)


def test_records_are_appended_and_fetching_goes_on() -> None:
    state = following()
    assert answer(state, has_records=True, high_watermark=12, log_start_offset=2) == [AppendFetched(12, 2)]
    assert not state.is_ready(0)
    assert state.step(LogChanged(), LOG, 0) == []
    assert state.is_ready(0)


def test_an_answer_without_records_still_moves_the_offsets() -> None:
    state = following()
    assert answer(state, high_watermark=99, log_start_offset=2) == [TakeLeaderOffsets(8, 2)]
    assert state.is_ready(0)


def test_a_log_that_has_parted_is_cut_by_epochs_and_not_by_the_high_watermark() -> None:
    state = following()
    assert answer(state, diverging=EpochEnd(1, 6)) == [CutFollowerLog(6)]
    assert state.phase is FetchPhase.CHANGING
    state.step(LogChanged(), LOG, 0)
    assert state.is_ready(0)


def test_an_answer_to_an_older_question_is_ignored() -> None:
    state = following()
    asked = state.position(LOG)
    late = FetchAnswered(asked=asked, diverging=EpochEnd(0, 5))
    assert state.step(late, Log(log_end_offset=9), 0) == []
    assert state.step(FetchAnswered(asked=FollowerPosition(6, 8, 1), has_records=True), LOG, 0) == []
    assert state.is_ready(0)
    answer(state, has_records=True)
    assert state.step(late, LOG, 0) == []


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.replica_not_available,
        ErrorCode.unknown_server_error,
        ErrorCode.kafka_storage_error,
    ],
)
def test_errors_that_pass_delay_the_partition(code: ErrorCode) -> None:
    state = following()
    assert answer(state, now_ms=50, error_code=code) == []
    assert (state.phase, state.delayed_until_ms) == (FetchPhase.DELAYED, 150)
    assert not state.is_ready(149)
    assert state.is_ready(150)
    assert state.delayed_until_ms is None


@pytest.mark.parametrize(
    "code", [ErrorCode.not_leader_or_follower, ErrorCode.unknown_leader_epoch, ErrorCode.unknown_topic_id]
)
def test_a_leader_that_does_not_know_of_it_yet_is_asked_again_soon(code: ErrorCode) -> None:
    state = following()
    now_ms, delays = 0, []
    for _ in range(5):
        answer(state, now_ms=now_ms, error_code=code)
        assert state.delayed_until_ms is not None
        delays.append(state.delayed_until_ms - now_ms)
        now_ms = state.delayed_until_ms
        assert state.is_ready(now_ms)
    assert delays == [20, 40, 80, 100, 100]
    answer(state, now_ms=now_ms, high_watermark=0, log_start_offset=0)
    answer(state, now_ms=now_ms, error_code=code)
    assert state.delayed_until_ms == now_ms + 20


@pytest.mark.parametrize("event", [FetchFailed(), LogRejected()])
def test_failures_delay_the_partition(event: FetchFailed | LogRejected) -> None:
    state = following()
    state.step(event, LOG, 0)
    assert not state.is_ready(99)
    assert state.is_ready(100)


def test_a_fenced_epoch_waits_for_new_metadata() -> None:
    state = following()
    answer(state, error_code=ErrorCode.fenced_leader_epoch)
    assert state.phase is FetchPhase.STOPPED
    state.step(LogChanged(), LOG, 0)
    assert not state.is_ready(10_000)


def test_a_broken_log_dir_stops_the_partition() -> None:
    state = following()
    state.step(LogBroken(), LOG, 0)
    assert state.phase is FetchPhase.STOPPED


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "action", "phase"),
    [
        (0, 5, [CutFollowerLog(5)], FetchPhase.CHANGING),
        (20, 30, [RestartLog(20)], FetchPhase.CHANGING),
        (2, 30, [], FetchPhase.FETCHING),
        (8, 8, [], FetchPhase.FETCHING),
    ],
)
def test_an_offset_out_of_range(
    start_offset: int, end_offset: int, action: list[FollowerAction], phase: FetchPhase
) -> None:
    state = following()
    assert answer(state, error_code=ErrorCode.offset_out_of_range) == [AskLeaderRange()]
    assert not state.is_ready(0)
    assert state.step(LeaderRangeKnown(start_offset, end_offset), LOG, 0) == action
    assert state.phase is phase


@pytest.mark.parametrize("leader_end", [65, 200])
@pytest.mark.parametrize("epochs", [[(1, 80)], [(0, 80), (1, 90)]])
@pytest.mark.parametrize("parted_at", [65, 80])
def test_a_log_that_shares_nothing_with_the_leader_begins_where_the_leader_does(
    leader_end: int, epochs: list[tuple[int, int]], parted_at: int
) -> None:
    """Its start has moved in a history that ended; cut where the leader's epoch ends, it would lack what is below."""
    log = Log(log_end_offset=105, high_watermark=105, log_start_offset=80, epochs=LeaderEpochCache(epochs))
    state = following()
    assert answer(state, log, diverging=EpochEnd(0, parted_at)) == [AskLeaderRange()]
    assert not state.is_ready(10**9)
    assert state.step(LeaderRangeKnown(3, leader_end), log, 0) == [RestartLog(3)]
    assert state.phase is FetchPhase.CHANGING


def test_a_leader_that_ends_before_the_log_begins_is_followed_from_its_start() -> None:
    log = Log(log_end_offset=105, high_watermark=105, log_start_offset=80, epochs=LeaderEpochCache([(1, 80)]))
    state = following()
    assert answer(state, log, error_code=ErrorCode.offset_out_of_range) == [AskLeaderRange()]
    assert state.step(LeaderRangeKnown(3, 65), log, 0) == [RestartLog(3)]


@pytest.mark.parametrize(("start_offset", "end_offset"), [(-1, 5), (-1, -1), (7, 5)])
@pytest.mark.parametrize("given", [{"diverging": EpochEnd(0, 65)}, {"error_code": ErrorCode.offset_out_of_range}])
def test_nothing_is_dropped_for_a_range_that_no_log_has(
    given: dict[str, Any], start_offset: int, end_offset: int
) -> None:
    log = Log(log_end_offset=105, high_watermark=105, log_start_offset=80, epochs=LeaderEpochCache([(1, 80)]))
    state = following()
    assert answer(state, log, **given) == [AskLeaderRange()]
    assert state.step(LeaderRangeKnown(start_offset, end_offset), log, 0) == []
    assert (state.is_ready(99), state.is_ready(100)) == (False, True)


def test_a_log_that_shares_its_beginning_with_the_leader_is_only_cut() -> None:
    log = Log(log_end_offset=105, high_watermark=105, log_start_offset=80, epochs=LeaderEpochCache([(0, 80), (1, 90)]))
    assert answer(following(), log, diverging=EpochEnd(0, 85)) == [CutFollowerLog(85)]
    assert answer(following(), diverging=EpochEnd(0, 0)) == [CutFollowerLog(0)], "nothing was deleted here"


def test_an_unrequested_range_is_ignored() -> None:
    state = following()
    assert state.step(LeaderRangeKnown(0, 1), LOG, 0) == []
    assert state.is_ready(0)


def test_a_leader_that_contradicts_itself_is_not_asked_all_the_time() -> None:
    """The offset is out of range, the range says that it is not, and so on."""
    state = following()
    delays = []
    for _ in range(4):
        answer(state, error_code=ErrorCode.offset_out_of_range)
        assert state.step(LeaderRangeKnown(0, LOG.log_end_offset), LOG, 0) == []
        delays.append(state.delayed_until_ms)
        assert state.is_ready(1000)
    assert delays == [None, 40, 80, 100]


def test_what_is_in_the_tier_is_not_fetched_but_begun_behind() -> None:
    state = following()
    code = ErrorCode.offset_moved_to_tiered_storage
    assert answer(state, error_code=code, high_watermark=90, log_start_offset=10) == [AskLeaderTier()]
    assert (state.phase, state.is_ready(10**9)) == (FetchPhase.MOVED_TO_TIER, False)
    assert state.step(LeaderTierKnown(10, 59, 3), LOG, 0) == [RebuildFromTier(10, 59, 3)]
    assert state.phase is FetchPhase.CHANGING
    state.step(LogChanged(), LOG, 0)
    assert state.is_ready(0)


def test_an_unrequested_start_after_the_tier_is_ignored() -> None:
    state = following()
    assert state.step(LeaderTierKnown(10, 59, 3), LOG, 0) == []
    assert state.phase is FetchPhase.FETCHING


def test_a_leader_that_does_not_know_where_its_own_records_begin_is_asked_again() -> None:
    state = following()
    answer(state, error_code=ErrorCode.offset_moved_to_tiered_storage)
    assert state.step(FetchFailed(), LOG, 0) == []
    assert (state.phase, state.delayed_until_ms) == (FetchPhase.DELAYED, 100)
