from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from crabka.ids import ZERO_UUID
from crabka.kraft.actions import AppendControl, KRaftVersionChange, Reply, Send, VotersChange
from crabka.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    Response,
    UpdateVoterRequest,
    UpgradeRequest,
    UpgradeResponse,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
)
from crabka.kraft.roles import RoleName
from crabka.kraft.voters import ReplicaKey, VoterEndpoint, VoterSet
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.kraft_bench import CLUSTER, OK, CoreBench, voter, voter_set

VERSIONS = VersionsResponse(error=OK, kraft_versions=(0, 1))


def add(node_id: int = 4, *, ack_when_committed: bool = True) -> AddVoterRequest:
    return AddVoterRequest(
        cluster_id=CLUSTER,
        voter=voter(node_id).key,
        endpoints=voter(node_id).endpoints,
        timeout_ms=1000,
        ack_when_committed=ack_when_committed,
    )


def remove(node_id: int = 3) -> RemoveVoterRequest:
    return RemoveVoterRequest(cluster_id=CLUSTER, voter=voter(node_id).key, timeout_ms=1000)


def update(node_id: int = 2, *, epoch: int = 1) -> UpdateVoterRequest:
    moved = replace(voter(node_id), endpoints=voter(8).endpoints)
    return UpdateVoterRequest(cluster_id=CLUSTER, epoch=epoch, voter=moved)


def ready(**options: object) -> CoreBench:
    bench = CoreBench(**options)  # type: ignore[arg-type]
    bench.lead_and_commit()
    return bench


def error_of(response: Response | None) -> ErrorCode:
    assert isinstance(response, VoterChangeResponse | UpgradeResponse)
    return response.error


def replies(bench: CoreBench) -> list[ErrorCode]:
    changes = [action.response for action in bench.of(Reply)]
    return [response.error for response in changes if isinstance(response, VoterChangeResponse)]


def begin_add(bench: CoreBench, request: AddVoterRequest | None = None) -> Send:
    """Let the new voter catch up and ask for its addition; return the question for its versions."""
    bench.fetch_from(4)
    assert bench.ask(request or add()) is None
    return bench.sent(VersionsRequest)[0][0]


def test_a_caught_up_observer_becomes_a_voter_when_its_record_is_appended() -> None:
    bench = ready()
    send = begin_add(bench)
    assert send.to.endpoints == voter(4).endpoints
    bench.respond(send, VERSIONS)
    assert bench.core.voters == voter_set(1, 2, 3, 4)
    assert replies(bench) == []
    bench.fetch_from(2)
    assert replies(bench) == []
    bench.fetch_from(4)
    assert replies(bench) == [OK]
    assert bench.core.high_watermark == bench.log.end_offset


def test_a_leader_that_was_alone_for_long_gives_the_second_voter_time_to_fetch() -> None:
    bench = ready(voters=(1,))
    bench.pass_time(3_600_000)
    bench.respond(begin_add(bench), VERSIONS)
    bench.pass_time(bench.settings.check_quorum_timeout_ms - 1)
    assert bench.role() is RoleName.LEADER
    bench.pass_time(1)
    assert bench.role() is RoleName.RESIGNED


def test_an_addition_can_be_answered_before_it_is_committed() -> None:
    bench = ready()
    bench.respond(begin_add(bench, add(ack_when_committed=False)), VERSIONS)
    assert replies(bench) == [OK]
    assert error_of(bench.ask(remove())) is ErrorCode.request_timed_out


def test_an_observer_that_lags_is_not_added() -> None:
    bench = ready()
    bench.fetch_from(4, 1)
    assert bench.ask(add()) is None
    bench.respond(bench.sent(VersionsRequest)[0][0], VERSIONS)
    assert replies(bench) == [ErrorCode.request_timed_out]
    assert bench.core.voters == voter_set(1, 2, 3)


def test_an_observer_that_never_fetched_or_stopped_is_not_added() -> None:
    bench = ready()
    bench.ask(add(5))
    bench.respond(bench.sent(VersionsRequest)[0][0], VERSIONS)
    assert replies(bench) == [ErrorCode.request_timed_out]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (VersionsResponse(error=ErrorCode.unsupported_version), ErrorCode.request_timed_out),
        (VersionsResponse(error=OK, kraft_versions=(0, 0)), ErrorCode.invalid_request),
        (VersionsResponse(error=OK), ErrorCode.invalid_request),
    ],
)
def test_a_new_voter_must_know_the_level(answer: VersionsResponse, error: ErrorCode) -> None:
    bench = ready()
    bench.respond(begin_add(bench), answer)
    assert replies(bench) == [error]


def test_a_new_voter_that_cannot_be_reached_is_not_added() -> None:
    bench = ready()
    bench.fail(begin_add(bench))
    assert replies(bench) == [ErrorCode.request_timed_out]
    assert bench.ask(add()) is None


def test_a_change_that_takes_too_long_is_given_up() -> None:
    bench = ready()
    begin_add(bench)
    bench.pass_time(1000)
    assert replies(bench) == [ErrorCode.request_timed_out]
    bench.fetch_from(2)
    assert bench.ask(remove()) is None


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (replace(add(), cluster_id="other"), ErrorCode.inconsistent_cluster_id),
        (replace(add(), voter=ReplicaKey(4)), ErrorCode.invalid_request),
        (replace(add(), endpoints=()), ErrorCode.invalid_request),
        (add(2), ErrorCode.duplicate_voter),
        (replace(add(), voter=ReplicaKey(2, UUID(int=77))), ErrorCode.duplicate_voter),
        (replace(remove(), cluster_id="other"), ErrorCode.inconsistent_cluster_id),
        (remove(9), ErrorCode.voter_not_found),
        (replace(remove(), voter=ReplicaKey(3, UUID(int=77))), ErrorCode.voter_not_found),
        (replace(remove(), voter=ReplicaKey(3)), ErrorCode.invalid_request),
    ],
)
def test_a_wrong_change_is_refused(request_: AddVoterRequest | RemoveVoterRequest, error: ErrorCode) -> None:
    assert error_of(ready().ask(request_)) is error


def test_voters_change_only_after_a_commit_in_the_own_epoch() -> None:
    bench = CoreBench()
    bench.lead()
    assert error_of(bench.ask(add())) is ErrorCode.request_timed_out
    assert error_of(bench.ask(remove())) is ErrorCode.request_timed_out


def test_only_a_leader_changes_voters() -> None:
    bench = CoreBench()
    for request in (add(), remove(), update(epoch=0), UpgradeRequest(kraft_version=1)):
        assert error_of(bench.ask(request)) is ErrorCode.not_leader_or_follower


def test_one_change_at_a_time() -> None:
    bench = ready()
    assert bench.ask(remove()) is None
    assert error_of(bench.ask(remove(2))) is ErrorCode.request_timed_out
    assert error_of(bench.ask(add())) is ErrorCode.request_timed_out
    assert error_of(bench.ask(update())) is ErrorCode.request_timed_out


def test_a_removed_voter_does_not_count_any_more() -> None:
    bench = ready()
    bench.ask(remove())
    bench.fetch_from(3)
    assert replies(bench) == []
    bench.fetch_from(2)
    assert replies(bench) == [OK]
    assert bench.core.voters == voter_set(1, 2)


def test_a_leader_removes_itself_and_hands_over_once_that_is_committed() -> None:
    bench = ready()
    bench.ask(remove(1))
    assert bench.core.is_leader
    assert not bench.core.is_voter
    bench.fetch_from(2)
    assert bench.core.is_leader
    bench.fetch_from(3)
    assert bench.role() is RoleName.RESIGNED


def test_the_last_voter_stays() -> None:
    assert error_of(ready(voters=(1,)).ask(remove(1))) is ErrorCode.invalid_request


def test_a_change_fails_with_the_leadership() -> None:
    bench = ready()
    bench.ask(remove())
    bench.follow(2, 7)
    assert replies(bench) == [ErrorCode.not_leader_or_follower]


def test_static_voters_cannot_be_changed() -> None:
    bench = ready(level=0)
    assert error_of(bench.ask(add())) is ErrorCode.unsupported_version
    assert error_of(bench.ask(remove())) is ErrorCode.unsupported_version


def test_a_voter_reports_its_new_endpoints() -> None:
    bench = ready()
    assert error_of(bench.ask(update())) is OK
    assert bench.core.voters.endpoints_of(2) == voter(8).endpoints
    bench.fetch_from(2)
    before = bench.log.end_offset
    assert error_of(bench.ask(update())) is OK
    assert bench.log.end_offset == before


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (replace(update(), cluster_id="other"), ErrorCode.inconsistent_cluster_id),
        (update(epoch=0), ErrorCode.fenced_leader_epoch),
        (update(9), ErrorCode.voter_not_found),
        (replace(update(), voter=replace(voter(2), directory_id=ZERO_UUID)), ErrorCode.invalid_request),
        (replace(update(), voter=replace(voter(2), endpoints=())), ErrorCode.invalid_request),
        (replace(update(), voter=replace(voter(2), min_kraft_version=2)), ErrorCode.invalid_request),
        (replace(update(), voter=replace(voter(2), max_kraft_version=0)), ErrorCode.invalid_request),
    ],
)
def test_a_wrong_update_is_refused(request_: UpdateVoterRequest, error: ErrorCode) -> None:
    assert error_of(ready().ask(request_)) is error


def reported(bench: CoreBench, *ids: int) -> None:
    for node_id in ids:
        request = UpdateVoterRequest(cluster_id=CLUSTER, epoch=1, voter=voter(node_id))
        assert error_of(bench.ask(request)) is OK


def test_the_upgrade_writes_the_voters_that_reported_themselves() -> None:
    bench = ready(level=0)
    reported(bench, 2, 3)
    assert error_of(bench.ask(UpgradeRequest(kraft_version=1))) is OK
    assert bench.of(AppendControl)[0].records == (KRaftVersionChange(1), VotersChange(voter_set(1, 2, 3)))
    assert (bench.core.history.kraft_version, bench.core.voters) == (1, voter_set(1, 2, 3))
    bench.fetch_from(2)
    assert bench.core.high_watermark == bench.log.end_offset


def test_the_upgrade_can_be_tried_without_doing_it() -> None:
    bench = ready(level=0)
    reported(bench, 2, 3)
    assert error_of(bench.ask(UpgradeRequest(kraft_version=1, validate_only=True))) is OK
    assert not bench.of(AppendControl)


def test_an_upgrade_that_not_every_voter_can_follow_is_refused() -> None:
    bench = ready(level=0)
    reported(bench, 2)
    assert error_of(bench.ask(UpgradeRequest(kraft_version=1))) is ErrorCode.invalid_update_version
    old = replace(voter(3), max_kraft_version=0)
    bench.ask(UpdateVoterRequest(cluster_id=CLUSTER, epoch=1, voter=old))
    assert error_of(bench.ask(UpgradeRequest(kraft_version=1))) is ErrorCode.invalid_update_version
    stranger = UpdateVoterRequest(cluster_id=CLUSTER, epoch=1, voter=voter(9))
    assert error_of(bench.ask(stranger)) is ErrorCode.voter_not_found


def test_kraft_version_does_not_go_back() -> None:
    bench = ready()
    assert error_of(bench.ask(UpgradeRequest(kraft_version=0))) is ErrorCode.invalid_update_version
    assert error_of(bench.ask(UpgradeRequest(kraft_version=1))) is OK
    assert not bench.of(AppendControl)
    early = CoreBench()
    early.lead()
    assert error_of(early.ask(UpgradeRequest(kraft_version=1))) is ErrorCode.request_timed_out


def test_versions_of_another_replica_do_not_count() -> None:
    bench = ready()
    send = begin_add(bench)
    bench.pass_time(1000)
    bench.respond(send, VERSIONS)
    assert bench.core.voters == VoterSet(voter_set(1, 2, 3).nodes)


@pytest.mark.parametrize(
    "wild",
    [
        replace(add(), voter=ReplicaKey(-5, UUID(int=9))),
        replace(add(), endpoints=(VoterEndpoint("CONTROLLER", "", 9093),)),
        replace(add(), endpoints=(VoterEndpoint("CONTROLLER", "host", 0),)),
        replace(add(), endpoints=(VoterEndpoint("A", "host", 1), VoterEndpoint("A", "host", 2))),
    ],
)
def test_a_voter_that_cannot_be_is_not_added(wild: AddVoterRequest) -> None:
    bench = ready()
    assert error_of(bench.ask(wild)) is ErrorCode.invalid_request


def test_kraft_version_cannot_be_raised_beyond_what_there_is() -> None:
    bench = ready()
    for node in bench.core.voters.nodes:
        changed = replace(node, max_kraft_version=32_767)
        bench.leader_role.reported_voters = bench.leader_role.reported_voters.maybe_update(changed) or VoterSet()
    assert error_of(bench.ask(UpgradeRequest(kraft_version=32_767))) is ErrorCode.invalid_update_version
