from __future__ import annotations

from crabka.kraft.actions import ElectionState, PersistElection, Warn
from crabka.kraft.core import snapshot_content
from crabka.kraft.events import LogPruned, RequestFailed, ResponseReceived, TimePassed
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    DescribeResponse,
    EndQuorumEpochRequest,
    LeaderHint,
    MetadataFetchRequest,
    VersionsRequest,
    VersionsResponse,
)
from crabka.kraft.roles import RoleName
from tests.support.kraft_sim.disk import Entry
from tests.support.quorum.kraft_bench import OK, CoreBench, fetched, voter, voter_set


def test_a_restarted_leader_is_resigned_in_its_epoch() -> None:
    bench = CoreBench(election=ElectionState(4, 1, voter(1).key))
    assert (bench.role(), bench.core.epoch) == (RoleName.RESIGNED, 4)
    bench.step(TimePassed())
    assert [request.preferred for _, request in bench.sent(EndQuorumEpochRequest)] == [(), ()]
    bench.pass_time(2_000)
    assert (bench.role(), bench.core.epoch) == (RoleName.UNATTACHED, 5)


def test_a_restarted_leader_that_votes_alone_leads_the_next_epoch_at_once() -> None:
    bench = CoreBench(voters=(1,), election=ElectionState(4, 1, voter(1).key))
    assert (bench.role(), bench.core.epoch) == (RoleName.RESIGNED, 4)
    bench.step(TimePassed())
    assert (bench.role(), bench.core.epoch) == (RoleName.LEADER, 5)
    assert [action.state for action in bench.of(PersistElection)] == [ElectionState(5, 1, voter(1).key)]


def test_the_high_watermark_of_the_leader_is_what_it_reported() -> None:
    bench = CoreBench()
    bench.follow(2, 3)
    bench.respond(bench.sent(MetadataFetchRequest)[0][0], fetched(3, 2, Entry(3, 0), high_watermark=9))
    assert (bench.core.leader_high_watermark, bench.core.high_watermark) == (9, 1)
    leader = CoreBench()
    assert leader.core.leader_high_watermark is None
    leader.lead()
    leader.fetch_from(2)
    assert leader.core.leader_high_watermark == leader.log.end_offset


def test_a_restarted_follower_follows_on() -> None:
    bench = CoreBench(election=ElectionState(4, 2))
    assert bench.role() is RoleName.FOLLOWER
    assert CoreBench(election=ElectionState(4, 77)).core.role is RoleName.UNATTACHED


def test_the_log_may_know_a_later_epoch_than_quorum_state() -> None:
    bench = CoreBench(election=ElectionState(4, 2, voter(2).key), entries=(Entry(6, 0),))
    assert bench.state == ElectionState(6)
    bench.step(TimePassed())
    assert bench.of(PersistElection)[0].state == ElectionState(6)


def test_everything_that_follows_a_new_epoch_waits_for_the_disk() -> None:
    bench = CoreBench()
    actions = bench.core.step(TimePassed(), bench.now_ms + 10_000)
    assert not [action for action in actions if isinstance(action, PersistElection)]
    bench.follow(2, 3)
    assert isinstance(bench.actions[0], PersistElection)
    assert bench.actions[0].then == tuple(bench.actions[1 : 1 + len(bench.actions[0].then)])


def test_an_unchanged_election_is_not_written_again() -> None:
    bench = CoreBench()
    bench.follow(2, 3)
    bench.follow(2, 3)
    assert not bench.of(PersistElection)


def test_time_does_not_go_back() -> None:
    bench = CoreBench()
    bench.pass_time(10_000)
    deadline = bench.core.next_deadline_ms
    bench.core.step(TimePassed(), 5)
    assert bench.core.next_deadline_ms == deadline


def test_outcomes_of_forgotten_requests_mean_nothing() -> None:
    bench = CoreBench()
    bench.pass_time(0)
    state = bench.state
    bench.step(ResponseReceived(99, fetched(9, 2)))
    bench.step(RequestFailed(99))
    assert bench.state == state


def test_an_answer_of_another_kind_is_noted() -> None:
    bench = CoreBench()
    bench.follow(2, 3)
    bench.respond(bench.sent(MetadataFetchRequest)[0][0], DescribeResponse(error=OK, leader=LeaderHint(3, 2)))
    assert bench.of(Warn)


def test_a_replica_reports_its_versions() -> None:
    response = CoreBench().ask(VersionsRequest())
    assert response == VersionsResponse(error=OK, kraft_versions=(0, 1))


def test_the_epoch_start_is_known_to_its_leader_only() -> None:
    bench = CoreBench(entries=(Entry(1, 0),))
    assert bench.core.epoch_start_offset is None
    bench.lead()
    assert bench.core.epoch_start_offset == 1


def test_a_snapshot_receives_its_voters() -> None:
    bench = CoreBench()
    bench.lead()
    assert snapshot_content(bench.core, OffsetAndEpoch(bench.log.end_offset, 1)) == (voter_set(1, 2, 3), 1)
    bench.step(LogPruned(bench.log.end_offset))
    assert bench.core.voters == voter_set(1, 2, 3)
