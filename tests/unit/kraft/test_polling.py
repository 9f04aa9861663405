from __future__ import annotations

from dataclasses import replace

from crabka.kraft.events import ResignRequested, ShutdownRequested
from crabka.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    LeaderHint,
    MetadataFetchRequest,
    MetadataFetchResponse,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
)
from crabka.kraft.roles import RoleName
from crabka.kraft.voters import VoterSet
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.kraft_bench import OK, CoreBench, fetched, voter


def test_a_voter_without_a_leader_looks_for_one_and_then_stands() -> None:
    bench = CoreBench()
    bench.pass_time(0)
    assert len(bench.sent(MetadataFetchRequest)) == 1
    deadline = bench.core.next_deadline_ms
    assert deadline == bench.now_ms + 1500
    bench.pass_time(1500)
    assert bench.role() is RoleName.PROSPECTIVE


def test_an_observer_without_voters_asks_the_bootstrap_addresses() -> None:
    own, other = voter(1).endpoints[0], voter(2).endpoints[0]
    bench = CoreBench(voters=(), bootstrap=(own, other))
    bench.pass_time(0)
    send, _ = bench.sent(MetadataFetchRequest)[0]
    assert (send.to.node_id, send.to.endpoints) == (-3, (other,))
    hint = LeaderHint(4, 2, voter(2).endpoints)
    bench.respond(send, MetadataFetchResponse(error=ErrorCode.fenced_leader_epoch, leader=hint))
    assert bench.role() is RoleName.FOLLOWER
    assert bench.sent(MetadataFetchRequest)[0][0].to.node_id == 2


def test_an_observer_never_stands() -> None:
    bench = CoreBench(voters=(2, 3))
    bench.pass_time(60_000)
    assert bench.role() is RoleName.UNATTACHED
    assert not bench.sent(VoteRequest)


def test_a_leader_announces_itself_until_a_voter_fetches() -> None:
    bench = CoreBench()
    bench.lead()
    assert [send.to.node_id for send, _ in bench.sent(BeginQuorumEpochRequest)] == [2, 3]
    for send, _ in bench.sent(BeginQuorumEpochRequest):
        bench.respond(send, BeginQuorumEpochResponse(error=OK, leader=LeaderHint(1, 1)))
    bench.pass_time(bench.settings.begin_quorum_period_ms - 1)
    assert not bench.sent(BeginQuorumEpochRequest)
    bench.fetch_from(2)
    bench.pass_time(1)
    assert [send.to.node_id for send, _ in bench.sent(BeginQuorumEpochRequest)] == [3]


def test_a_leader_without_a_majority_resigns() -> None:
    bench = CoreBench(voters=(1, 2, 3, 4, 5))
    bench.lead()
    for _ in range(4):
        bench.fetch_from(2)
        bench.pass_time(bench.settings.check_quorum_timeout_ms // 4)
    assert bench.role() is RoleName.RESIGNED
    assert bench.core.epoch == 1


def test_a_leader_with_a_majority_stays() -> None:
    bench = CoreBench()
    bench.lead()
    for _ in range(8):
        bench.fetch_from(2)
        bench.pass_time(bench.settings.check_quorum_timeout_ms // 2)
    assert bench.core.is_leader


def test_a_lone_voter_needs_no_peer() -> None:
    bench = CoreBench(voters=(1,))
    bench.pass_time(10_000)
    bench.pass_time(1_000_000)
    assert bench.core.is_leader
    assert bench.core.next_deadline_ms is None


def test_a_resigned_leader_names_its_successors_until_they_answer() -> None:
    bench = CoreBench()
    bench.lead()
    bench.fetch_from(3)
    bench.step(ResignRequested(0))
    assert bench.core.is_leader
    bench.step(ResignRequested(1))
    requests = bench.sent(EndQuorumEpochRequest)
    assert [send.to.node_id for send, _ in requests] == [2, 3]
    assert requests[0][1].preferred == (voter(3).key, voter(2).key)
    assert not bench.core.may_stop
    for send, _ in requests:
        bench.respond(send, EndQuorumEpochResponse(error=OK, leader=LeaderHint(1, 1)))
    assert bench.core.may_stop
    bench.pass_time(2_000)
    assert (bench.role(), bench.core.epoch) == (RoleName.UNATTACHED, 2)


def test_a_stopping_leader_stays_resigned_and_a_stopping_voter_does_not_stand() -> None:
    bench = CoreBench()
    bench.lead()
    bench.step(ShutdownRequested())
    assert bench.role() is RoleName.RESIGNED
    bench.pass_time(60_000)
    assert bench.role() is RoleName.RESIGNED
    follower = CoreBench()
    follower.follow(2, 3)
    follower.step(ShutdownRequested())
    follower.pass_time(60_000)
    assert follower.role() is RoleName.FOLLOWER
    assert follower.core.may_stop


def test_a_follower_below_version_1_notifies_each_leader_of_itself_once() -> None:
    bench = CoreBench(level=0)
    bench.follow(2, 3)
    fetch = bench.sent(MetadataFetchRequest)[0][0]
    bench.pass_time(1000)
    bench.respond(fetch, fetched(3, 2))
    bench.pass_time(1000)
    send, update = bench.sent(UpdateVoterRequest)[0]
    assert (send.to.node_id, update.voter) == (2, voter(1))
    bench.respond(send, VoterChangeResponse(error=OK, leader=LeaderHint(3, 2)))
    bench.follow(2, 3)
    bench.pass_time(1000)
    bench.follow(2, 3)
    bench.pass_time(1000)
    assert not bench.sent(UpdateVoterRequest)


def test_a_voter_with_new_endpoints_notifies_the_leader() -> None:
    bench = CoreBench()
    known = bench.core.voters
    moved = replace(voter(1), endpoints=voter(8).endpoints)
    changed = known.maybe_update(moved)
    assert isinstance(changed, VoterSet)
    bench.core.history.add_voters(0, changed)
    bench.log.append(())
    bench.follow(2, 3)
    bench.now_ms += 1000
    bench.follow(2, 3)
    bench.pass_time(1000)
    assert bench.sent(UpdateVoterRequest)[0][1].voter == voter(1)


def test_there_is_always_a_next_deadline_for_a_voter_and_it_is_ahead() -> None:
    bench = CoreBench()
    for _ in range(40):
        deadline = bench.core.next_deadline_ms
        assert deadline is not None
        assert deadline > bench.now_ms - 1
        bench.pass_time(deadline - bench.now_ms)


def test_a_leader_that_goes_down_notifies_each_voter_or_finds_it_gone() -> None:
    bench = CoreBench()
    bench.lead_and_commit()
    bench.step(ShutdownRequested())
    (first, _), (second, _) = bench.sent(EndQuorumEpochRequest)
    assert not bench.core.may_stop
    bench.respond(first, EndQuorumEpochResponse(error=OK, leader=LeaderHint(1, 1)))
    assert not bench.core.may_stop
    bench.fail(second)
    assert bench.core.may_stop


def test_a_leader_that_only_resigns_asks_a_voter_again_that_could_not_be_notified() -> None:
    bench = CoreBench()
    bench.lead_and_commit()
    bench.step(ResignRequested(1))
    bench.fail(bench.sent(EndQuorumEpochRequest)[0][0])
    bench.pass_time(bench.settings.retry_backoff_ms)
    assert len(bench.sent(EndQuorumEpochRequest)) == 1


def test_a_lone_voter_that_resigned_leads_the_next_epoch_after_the_time_out() -> None:
    bench = CoreBench(voters=(1,))
    bench.pass_time(0)
    bench.step(ResignRequested(1))
    assert bench.role() is RoleName.RESIGNED
    bench.pass_time(2_000)
    assert (bench.role(), bench.core.epoch) == (RoleName.LEADER, 2)
