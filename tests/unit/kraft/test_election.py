from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.kraft.actions import ElectionState, Warn
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


def follow_leader(bench: CoreBench, leader_id: int = 2, epoch: int = 5) -> None:
    bench.follow(leader_id, epoch)
    send, _ = bench.sent(MetadataFetchRequest)[0]
    bench.respond(send, fetched(epoch, leader_id))


def end(*preferred: int, epoch: int = 5) -> EndQuorumEpochRequest:
    keys = tuple(voter(node_id).key for node_id in preferred)
    return EndQuorumEpochRequest(cluster_id=CLUSTER, leader_id=2, epoch=epoch, preferred=keys)


def test_voters_that_lost_their_leader_stand_one_after_the_other() -> None:
    bench = CoreBench(voters=(0, 1, 2))
    follow_leader(bench)
    bench.step(LeaderLost(2))
    bench.pass_time(LOST_LEADER_STEP_MS - 1)
    assert bench.role() is RoleName.FOLLOWER
    assert answer(bench, vote(0, pre_vote=True)).granted
    bench.step(LeaderLost(2))
    bench.pass_time(1)
    assert bench.role() is RoleName.PROSPECTIVE


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
    follow_leader(bench)
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
def test_in_the_largest_epoch_no_voter_stands_and_the_reason_is_logged_once(voters: tuple[int, ...]) -> None:
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
    follow_leader(bench)
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
