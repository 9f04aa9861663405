from __future__ import annotations

from crabka.kraft.actions import AdvanceHighWatermark, AppendRecords, Reply, VotersChange
from crabka.kraft.messages import LeaderHint, MetadataFetchRequest
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry
from tests.support.quorum.kraft_bench import CoreBench, fetched, voter, voter_set


def test_a_hint_names_the_leader_as_far_as_it_is_known() -> None:
    bench = CoreBench()
    assert bench.core.leader == LeaderHint(0)
    bench.follow(2, 3)
    assert bench.core._state.hint() == LeaderHint(3, 2, voter(2).endpoints)
    bench.pass_time(bench.settings.fetch_timeout_ms)
    assert bench.core._state.hint() == LeaderHint(3, 2, voter(2).endpoints)
    other = CoreBench()
    other.lead()
    assert other.core.leader == LeaderHint(1, 1, voter(1).endpoints)


def test_the_high_watermark_only_rises() -> None:
    state = CoreBench().core._state
    state.raise_high_watermark(4)
    state.raise_high_watermark(3)
    state.raise_high_watermark(4)
    assert state.actions == [AdvanceHighWatermark(4)]


def test_the_cluster_is_checked_if_it_is_named() -> None:
    state = CoreBench().core._state
    assert state.accepts_cluster(None)
    assert state.accepts_cluster("bench")
    assert not state.accepts_cluster("other")


def test_only_the_leader_of_the_epoch_answers_as_leader() -> None:
    bench = CoreBench()
    bench.lead()
    state = bench.core._state
    errors = [state.leader_only_error(epoch) for epoch in (0, 1, 2)]
    assert errors == [ErrorCode.fenced_leader_epoch, ErrorCode.none, ErrorCode.unknown_leader_epoch]


def test_requests_wait_while_the_log_changes() -> None:
    state = CoreBench().core._state
    state.reply("t", None)  # type: ignore[arg-type]
    assert not state.log_is_changing
    state.emit(AppendRecords(0, 1, ()))
    assert state.log_is_changing
    assert isinstance(state.actions[0], Reply)


def test_a_voter_whose_removal_may_be_lost_can_still_stand() -> None:
    bench = CoreBench()
    bench.follow(2, 3)
    removal = Entry(3, VotersChange(voter_set(2, 3)))
    bench.respond(bench.sent(MetadataFetchRequest)[0][0], fetched(3, 2, removal))
    state = bench.core._state
    assert not state.is_voter
    assert state.may_stand
    state.raise_high_watermark(1)
    assert not state.may_stand


def test_a_lone_voter_stands_at_once() -> None:
    lone = CoreBench(voters=(1,))
    assert lone.core._state.election_wait_ms() == 0
    assert CoreBench().core._state.election_wait_ms() >= lone.settings.election_timeout_ms
