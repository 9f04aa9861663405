from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from crabka.kraft.actions import ElectionState, PersistElection, Reply, Warn
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.events import LeaderLost
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    LeaderHint,
    MetadataFetchRequest,
    MetadataFetchResponse,
    VoteRequest,
    VoteResponse,
)
from crabka.kraft.roles import RoleName
from crabka.kraft.settings import LOST_LEADER_STEP_MS
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry
from tests.support.quorum.kraft_bench import CLUSTER, OK, CoreBench, fetch, fetched, voter

ENTRIES = (Entry(1, 0), Entry(2, 1))


def vote(candidate: int = 2, epoch: int = 5, last: tuple[int, int] = (2, 2), *, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(
        cluster_id=CLUSTER,
        candidate=voter(candidate).key,
        epoch=epoch,
        last=OffsetAndEpoch(*last),
        voter=voter(1).key,
        pre_vote=pre_vote,
    )


def answer(bench: CoreBench, request: VoteRequest) -> VoteResponse:
    response = bench.ask(request)
    assert isinstance(response, VoteResponse)
    return response


def begin(leader_id: int = 2, epoch: int = 5) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(cluster_id=CLUSTER, leader_id=leader_id, epoch=epoch, voter=voter(1).key)


def hear_leader(bench: CoreBench, leader_id: int = 2, epoch: int = 5) -> None:
    bench.follow(leader_id, epoch)
    send, _ = bench.sent(MetadataFetchRequest)[0]
    bench.respond(send, fetched(epoch, leader_id))


def test_a_vote_is_durable_before_it_leaves() -> None:
    bench = CoreBench(entries=ENTRIES)
    assert answer(bench, vote()).granted
    persist = bench.of(PersistElection)[0]
    assert persist.state == ElectionState(5, None, voter(2).key)
    assert [action for action in persist.then if isinstance(action, Reply)]
    assert bench.role() is RoleName.UNATTACHED


def test_one_vote_per_epoch_and_the_same_answer_to_a_retry() -> None:
    bench = CoreBench(entries=ENTRIES)
    assert answer(bench, vote(2)).granted
    assert not answer(bench, vote(3)).granted
    assert answer(bench, vote(2)).granted
    assert answer(bench, vote(3, epoch=6)).granted


def test_the_vote_outlives_a_believed_leader_and_a_restart() -> None:
    bench = CoreBench(entries=ENTRIES)
    answer(bench, vote(2))
    bench.ask(begin(2))
    assert bench.state == ElectionState(5, 2, voter(2).key)
    again = CoreBench(entries=ENTRIES, election=bench.state)
    assert again.core.role is RoleName.FOLLOWER
    assert not answer(again, vote(3)).granted


@pytest.mark.parametrize(("last", "granted"), [((2, 2), True), ((1, 3), True), ((9, 1), False), ((1, 2), False)])
def test_a_vote_needs_a_log_that_is_up_to_date(last: tuple[int, int], granted: bool) -> None:
    bench = CoreBench(entries=ENTRIES)
    assert answer(bench, vote(last=last)).granted is granted
    assert answer(bench, vote(3, epoch=5, last=last, pre_vote=True)).granted is granted


def test_a_vote_for_an_epoch_with_a_leader_is_refused() -> None:
    bench = CoreBench(entries=ENTRIES)
    bench.follow(3, 5)
    response = answer(bench, vote(2))
    assert not response.granted
    assert response.leader.leader_id == 3


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (replace(vote(), cluster_id="other"), ErrorCode.inconsistent_cluster_id),
        (vote(epoch=2, last=(2, 1)), ErrorCode.fenced_leader_epoch),
        (vote(last=(-1, 2)), ErrorCode.invalid_request),
        (vote(last=(2, -1)), ErrorCode.invalid_request),
        (vote(last=(2, 5)), ErrorCode.invalid_request),
        (replace(vote(), candidate=ReplicaKey(-1)), ErrorCode.invalid_request),
        (replace(vote(), voter=ReplicaKey(1, UUID(int=9))), ErrorCode.invalid_voter_key),
        (replace(vote(), voter=voter(2).key), ErrorCode.invalid_voter_key),
    ],
)
def test_a_malformed_or_misled_vote_request_is_refused(request_: VoteRequest, error: ErrorCode) -> None:
    bench = CoreBench(entries=ENTRIES, election=ElectionState(3))
    response = answer(bench, request_)
    assert (response.error, response.granted) == (error, False)


def test_a_pre_vote_may_be_asked_in_the_epoch_of_the_log() -> None:
    bench = CoreBench(entries=ENTRIES)
    assert answer(bench, vote(epoch=2, pre_vote=True)).granted
    assert bench.core.epoch == 2
    assert bench.state.voted is None


def test_a_pre_vote_is_refused_while_a_leader_is_heard() -> None:
    silent = CoreBench(entries=ENTRIES)
    silent.follow(2, 5)
    assert answer(silent, vote(3, pre_vote=True)).granted
    bench = CoreBench(entries=ENTRIES)
    hear_leader(bench)
    assert not answer(bench, vote(3, pre_vote=True)).granted


def test_an_observer_votes_for_a_candidate_with_a_newer_voter_set() -> None:
    assert answer(CoreBench(voters=(2, 3)), vote()).granted


def test_a_leader_gives_no_votes_in_its_epoch() -> None:
    bench = CoreBench()
    bench.lead()
    assert not answer(bench, vote(epoch=bench.core.epoch, last=(9, 0))).granted
    assert not answer(bench, vote(epoch=bench.core.epoch, last=(9, 0), pre_vote=True)).granted


def test_pre_votes_then_votes_make_a_leader() -> None:
    bench = CoreBench()
    bench.pass_time(10_000)
    assert bench.role() is RoleName.PROSPECTIVE
    assert bench.core.epoch == 0
    requests = [request for _, request in bench.sent(VoteRequest)]
    assert [request.voter for request in requests] == [voter(2).key, voter(3).key]
    assert all(request.pre_vote and request.epoch == 0 for request in requests)
    send, _ = bench.sent(VoteRequest)[0]
    bench.respond(send, VoteResponse(error=OK, leader=LeaderHint(0), granted=True))
    assert bench.role() is RoleName.CANDIDATE
    assert bench.state == ElectionState(1, None, voter(1).key)
    send, request = bench.sent(VoteRequest)[1]
    assert not request.pre_vote
    bench.respond(send, VoteResponse(error=OK, leader=LeaderHint(1), granted=True))
    assert bench.core.is_leader
    assert bench.state == ElectionState(1, 1, voter(1).key)


def test_vote_requests_leave_only_behind_the_own_durable_vote() -> None:
    bench = CoreBench()
    bench.stand()
    persist = bench.of(PersistElection)[0]
    assert persist.state.voted == voter(1).key
    assert len([action for action in persist.then if action in [send for send, _ in bench.sent(VoteRequest)]]) == 2


def test_a_lone_voter_leads_at_once() -> None:
    bench = CoreBench(voters=(1,))
    bench.pass_time(10_000)
    assert bench.core.is_leader
    assert bench.core.high_watermark == bench.log.end_offset > 0


def test_a_refused_pre_vote_changes_no_epoch() -> None:
    bench = CoreBench()
    bench.pass_time(10_000)
    for send, _ in bench.sent(VoteRequest):
        bench.respond(send, VoteResponse(error=OK, leader=LeaderHint(0), granted=False))
    assert bench.role() is RoleName.UNATTACHED
    assert bench.core.epoch == 0


def test_a_refused_pre_vote_that_names_a_leader_leads_to_it() -> None:
    bench = CoreBench()
    bench.pass_time(10_000)
    send, _ = bench.sent(VoteRequest)[0]
    bench.respond(send, VoteResponse(error=OK, leader=LeaderHint(0, 3), granted=False))
    assert bench.role() is RoleName.FOLLOWER
    assert bench.state.leader_id == 3


def test_a_lost_election_waits_and_asks_again() -> None:
    bench = CoreBench()
    bench.stand()
    for send, _ in bench.sent(VoteRequest):
        bench.respond(send, VoteResponse(error=OK, leader=LeaderHint(1), granted=False))
    assert bench.role() is RoleName.CANDIDATE
    bench.pass_time(bench.settings.election_backoff_max_ms)
    assert bench.role() is RoleName.PROSPECTIVE
    assert bench.core.epoch == 1


def test_a_higher_epoch_in_an_answer_ends_the_candidacy() -> None:
    bench = CoreBench()
    bench.stand()
    send, _ = bench.sent(VoteRequest)[0]
    bench.respond(send, VoteResponse(error=ErrorCode.fenced_leader_epoch, leader=LeaderHint(7)))
    assert (bench.role(), bench.core.epoch) == (RoleName.UNATTACHED, 7)


def test_a_peer_that_does_not_know_pre_votes_counts_as_granting() -> None:
    bench = CoreBench()
    bench.pass_time(10_000)
    bench.fail(bench.sent(VoteRequest)[0][0], unsupported=True)
    assert bench.role() is RoleName.CANDIDATE


def test_an_unanswered_vote_request_is_sent_again() -> None:
    bench = CoreBench()
    bench.pass_time(10_000)
    send, request = bench.sent(VoteRequest)[0]
    bench.fail(send)
    assert not bench.sent(VoteRequest)
    bench.pass_time(bench.settings.retry_backoff_ms)
    assert bench.sent(VoteRequest)[0][1] == request


def test_an_announced_leader_is_followed() -> None:
    bench = CoreBench()
    response = bench.ask(begin())
    assert isinstance(response, BeginQuorumEpochResponse)
    assert (response.error, response.leader.leader_id) == (OK, 2)
    assert bench.sent(MetadataFetchRequest)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (replace(begin(), cluster_id="other"), ErrorCode.inconsistent_cluster_id),
        (begin(epoch=2), ErrorCode.fenced_leader_epoch),
        (begin(leader_id=-1), ErrorCode.invalid_request),
        (replace(begin(), voter=ReplicaKey(1, UUID(int=9))), ErrorCode.invalid_voter_key),
        (begin(leader_id=1), ErrorCode.invalid_request),
    ],
)
def test_a_false_announcement_is_refused(request_: BeginQuorumEpochRequest, error: ErrorCode) -> None:
    response = CoreBench(election=ElectionState(3)).ask(request_)
    assert isinstance(response, BeginQuorumEpochResponse)
    assert response.error is error


def test_a_second_leader_of_an_epoch_is_not_believed() -> None:
    bench = CoreBench()
    bench.ask(begin(2))
    response = bench.ask(begin(3))
    assert isinstance(response, BeginQuorumEpochResponse)
    assert response.error is ErrorCode.invalid_request
    assert bench.state.leader_id == 2


def test_an_announcement_calls_a_prospective_back() -> None:
    bench = CoreBench()
    bench.ask(begin())
    bench.pass_time(bench.settings.fetch_timeout_ms)
    assert bench.role() is RoleName.PROSPECTIVE
    bench.ask(begin())
    assert bench.role() is RoleName.FOLLOWER


def end(*preferred: int, epoch: int = 5) -> EndQuorumEpochRequest:
    keys = tuple(voter(node_id).key for node_id in preferred)
    return EndQuorumEpochRequest(cluster_id=CLUSTER, leader_id=2, epoch=epoch, preferred=keys)


def test_the_first_successor_stands_at_once() -> None:
    bench = CoreBench()
    hear_leader(bench)
    response = bench.ask(end(1, 3))
    assert isinstance(response, EndQuorumEpochResponse)
    assert response.error is OK
    assert bench.role() is RoleName.PROSPECTIVE


def test_the_next_successor_waits_and_gives_pre_votes_meanwhile() -> None:
    bench = CoreBench()
    hear_leader(bench)
    bench.ask(end(3, 1))
    assert bench.role() is RoleName.FOLLOWER
    assert answer(bench, vote(3, pre_vote=True)).granted
    bench.pass_time(bench.settings.election_backoff_max_ms)
    assert bench.role() is RoleName.PROSPECTIVE


def test_the_end_of_an_old_epoch_means_nothing() -> None:
    bench = CoreBench()
    hear_leader(bench)
    response = bench.ask(end(1, epoch=4))
    assert isinstance(response, EndQuorumEpochResponse)
    assert response.error is ErrorCode.fenced_leader_epoch
    assert bench.role() is RoleName.FOLLOWER


def test_refused_dials_start_the_election_early_and_nothing_more() -> None:
    bench = CoreBench()
    hear_leader(bench)
    bench.step(LeaderLost(3))
    assert bench.role() is RoleName.FOLLOWER
    bench.step(LeaderLost(2))
    assert bench.role() is RoleName.PROSPECTIVE
    assert (bench.core.epoch, bench.state.leader_id) == (5, 2)
    assert all(request.pre_vote for _, request in bench.sent(VoteRequest))
    assert answer(bench, vote(3, pre_vote=True)).granted
    assert not answer(bench, vote(3)).granted


def test_voters_that_lost_their_leader_stand_one_after_the_other() -> None:
    bench = CoreBench(voters=(0, 1, 2))
    hear_leader(bench)
    bench.step(LeaderLost(2))
    bench.pass_time(LOST_LEADER_STEP_MS - 1)
    assert bench.role() is RoleName.FOLLOWER
    assert answer(bench, vote(0, pre_vote=True)).granted
    bench.step(LeaderLost(2))
    bench.pass_time(1)
    assert bench.role() is RoleName.PROSPECTIVE


def test_an_observer_that_lost_its_leader_does_not_stand() -> None:
    bench = CoreBench(voters=(2, 3))
    hear_leader(bench)
    bench.step(LeaderLost(2))
    assert bench.role() is RoleName.FOLLOWER


def test_an_absurd_epoch_in_a_vote_is_refused_and_changes_nothing() -> None:
    bench = CoreBench(entries=ENTRIES)
    before = bench.state
    for pre_vote in (False, True):
        response = answer(bench, vote(epoch=MAX_EPOCH, pre_vote=pre_vote))
        assert (response.error, response.granted) == (ErrorCode.invalid_request, False)
    assert bench.state == before
    assert answer(bench, vote(epoch=before.epoch + 1)).error is OK


@pytest.mark.parametrize("request_", [begin(epoch=MAX_EPOCH), end(1, epoch=MAX_EPOCH)])
def test_an_absurd_epoch_in_the_name_of_a_voter_is_refused_and_changes_nothing(
    request_: BeginQuorumEpochRequest | EndQuorumEpochRequest,
) -> None:
    bench = CoreBench(entries=ENTRIES)
    before = bench.state
    response = bench.ask(request_)
    assert isinstance(response, BeginQuorumEpochResponse | EndQuorumEpochResponse)
    assert response.error is ErrorCode.invalid_request
    assert bench.state == before
    hear_leader(bench)
    assert bench.core.epoch == 5


@pytest.mark.parametrize("request_", [vote(), begin(), end(1)])
def test_many_requests_cannot_use_up_the_epochs_either(
    request_: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest,
) -> None:
    bench = CoreBench(entries=ENTRIES)
    for _ in range(20):
        bench.ask(replace(request_, epoch=bench.core.epoch + bench.settings.request_epochs // 2))
    assert 2 < bench.core.epoch <= 2 + bench.settings.request_epochs


@pytest.mark.parametrize("voters", [(1,), (1, 2, 3)])
def test_in_the_largest_epoch_nobody_stands_and_the_reason_is_told_once(voters: tuple[int, ...]) -> None:
    bench = CoreBench(voters=voters, entries=ENTRIES, election=ElectionState(MAX_EPOCH, None, voter(2).key))
    warnings = [action.message for action in bench.pass_time(1) if isinstance(action, Warn)]
    warnings += [action.message for action in bench.pass_time(10_000) if isinstance(action, Warn)]
    assert bench.role() is RoleName.UNATTACHED
    (warning,) = warnings
    assert "crabka quorum repair" in warning


def test_a_leader_of_the_largest_epoch_stays_resigned_after_a_restart() -> None:
    bench = CoreBench(entries=ENTRIES, election=ElectionState(MAX_EPOCH, 1, voter(1).key))
    bench.pass_time(10_000)
    assert (bench.role(), bench.core.epoch) == (RoleName.RESIGNED, MAX_EPOCH)


@pytest.mark.parametrize("epoch", [6, MAX_EPOCH])
def test_a_leader_that_is_no_voter_is_asked_but_not_followed_at_its_word(epoch: int) -> None:
    bench = CoreBench(entries=ENTRIES, election=ElectionState(5, None, None))
    request = replace(begin(leader_id=99, epoch=epoch), endpoints=voter(99).endpoints)
    response = bench.ask(request)
    assert isinstance(response, BeginQuorumEpochResponse)
    assert response.error is ErrorCode.invalid_request
    assert bench.state == ElectionState(5, None, None)
    sends = [send for send, _ in bench.sent(MetadataFetchRequest)]
    for _ in range(10):
        if sends and sends[-1].to.endpoints == voter(99).endpoints:
            break
        if sends:
            bench.fail(sends.pop())
            sends += [send for send, _ in bench.sent(MetadataFetchRequest)]
        else:
            bench.pass_time(1)
            sends += [send for send, _ in bench.sent(MetadataFetchRequest)]
    send = sends[-1]
    assert send.to.endpoints == voter(99).endpoints
    # What it answers counts, as the answer of any address that is asked.
    hint = LeaderHint(6, 99, voter(99).endpoints)
    bench.respond(send, MetadataFetchResponse(error=ErrorCode.fenced_leader_epoch, leader=hint))
    assert (bench.role(), bench.state.leader_id, bench.core.epoch) == (RoleName.FOLLOWER, 99, 6)


def test_a_removed_peer_is_not_led_astray_by_a_leader_that_is_no_voter() -> None:
    bench = CoreBench(voters=(2, 3), entries=ENTRIES)
    hear_leader(bench)
    for request in (begin(99, MAX_EPOCH), begin(99, 6), replace(begin(99, MAX_EPOCH), cluster_id=None)):
        response = bench.ask(request)
        assert isinstance(response, BeginQuorumEpochResponse)
        assert response.error is ErrorCode.invalid_request
    end = EndQuorumEpochRequest(cluster_id=None, leader_id=99, epoch=MAX_EPOCH)
    assert getattr(bench.ask(end), "error", None) is ErrorCode.invalid_request
    assert (bench.role(), bench.state.leader_id, bench.core.epoch) == (RoleName.FOLLOWER, 2, 5)


def test_a_leader_gives_way_to_an_observer_in_a_higher_epoch() -> None:
    """Otherwise an observer that a vote request led to that epoch gets nothing from this leader, for good."""
    bench = CoreBench(entries=ENTRIES)
    bench.lead_and_commit()
    epoch = bench.core.epoch
    bench.ask(fetch(voter(50).key, MAX_EPOCH, bench.log.end_offset, epoch))
    assert (bench.role(), bench.core.epoch) == (RoleName.LEADER, epoch)
    bench.ask(fetch(voter(50).key, epoch + 7, bench.log.end_offset, epoch))
    assert (bench.role(), bench.core.epoch) == (RoleName.UNATTACHED, epoch + 7)


def test_a_voter_that_lost_durable_entries_neither_votes_nor_stands() -> None:
    bench = CoreBench(entries=ENTRIES, durable_end=OffsetAndEpoch(5, 2))
    assert bench.core.lost_end == (5, 2)
    for pre_vote in (False, True):
        assert not answer(bench, vote(last=(9, 4), pre_vote=pre_vote)).granted
    bench.pass_time(60_000)
    assert bench.role() is RoleName.UNATTACHED
    # It still follows the epochs of the others, and looks for a leader.
    assert (bench.core.epoch, bench.state.voted) == (5, None)


@pytest.mark.parametrize("durable_end", [None, OffsetAndEpoch(2, 2), OffsetAndEpoch(9, 1)])
def test_a_voter_that_has_all_that_was_durable_votes(durable_end: OffsetAndEpoch | None) -> None:
    bench = CoreBench(entries=ENTRIES, durable_end=durable_end)
    assert bench.core.lost_end is None
    assert answer(bench, vote()).granted
