from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from crabka.kraft.actions import VotersChange, Warn
from crabka.kraft.events import ShutdownRequested
from crabka.kraft.messages import (
    AddVoterRequest,
    LeaderHint,
    MetadataFetchRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from crabka.kraft.voters import VoterNode, VoterSet
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry
from tests.support.quorum.kraft_bench import CLUSTER, OK, CoreBench, fetched, voter


class FollowerBench(CoreBench):
    """A replica that follows node 2; its fetch waits at the leader."""

    def __init__(self, node_id: int = 9, *, auto_join: bool = True, level: int = 1) -> None:
        super().__init__(node_id, auto_join=auto_join, level=level)
        self.follow(2, 1)
        self._fetch = self.sent(MetadataFetchRequest)[0][0]

    def wait(self) -> None:
        """Hear from the leader until it is time to look at the voters."""
        self.pass_time(self.settings.update_voter_period_ms - 1)
        assert not self.sent(AddVoterRequest)
        self.follow(2, 1)
        self.pass_time(1)

    def receive(self, *voters: VoterNode) -> None:
        """Let the fetch bring a voter record."""
        self.respond(self._fetch, fetched(1, 2, Entry(1, VotersChange(VoterSet(voters))), high_watermark=0))


def test_an_observer_that_may_join_asks_to_be_added() -> None:
    bench = FollowerBench()
    bench.wait()
    send, request = bench.sent(AddVoterRequest)[0]
    assert send.to.node_id == 2
    assert request == AddVoterRequest(
        cluster_id=CLUSTER,
        voter=voter(9).key,
        endpoints=voter(9).endpoints,
        timeout_ms=bench.settings.request_timeout_ms,
        ack_when_committed=False,
    )


def test_it_asks_again_after_a_while_until_it_is_a_voter() -> None:
    bench = FollowerBench()
    bench.wait()
    (send, _) = bench.sent(AddVoterRequest)[0]
    bench.respond(send, VoterChangeResponse(error=ErrorCode.request_timed_out, leader=LeaderHint(-1)))
    assert not bench.of(Warn)
    bench.wait()
    assert len(bench.sent(AddVoterRequest)) == 1
    bench.receive(voter(1), voter(2), voter(3), voter(9))
    assert bench.core.is_voter
    bench.wait()
    assert not bench.sent(AddVoterRequest)


def test_a_node_whose_disk_was_replaced_asks_to_remove_what_it_was() -> None:
    bench = FollowerBench()
    bench.wait()
    lost = replace(voter(9), directory_id=UUID(int=7))
    bench.receive(voter(1), voter(2), voter(3), lost)
    bench.wait()
    _, request = bench.sent(RemoveVoterRequest)[0]
    assert request.voter == lost.key
    assert not bench.sent(AddVoterRequest)


@pytest.mark.parametrize(
    "bench", [FollowerBench(auto_join=False), FollowerBench(level=0)], ids=["unasked", "fixed voters"]
)
def test_no_voter_joins_unasked_or_where_voters_are_fixed(bench: FollowerBench) -> None:
    bench.wait()
    assert not bench.sent(AddVoterRequest)


def test_no_voter_joins_to_leave_at_once() -> None:
    bench = FollowerBench()
    bench.step(ShutdownRequested())
    bench.wait()
    assert not bench.sent(AddVoterRequest)


def test_a_refusal_is_reported_to_the_operator() -> None:
    bench = FollowerBench()
    bench.wait()
    (send, _) = bench.sent(AddVoterRequest)[0]
    refused = VoterChangeResponse(error=ErrorCode.invalid_request, leader=LeaderHint(-1), message="wrong versions")
    bench.respond(send, refused)
    assert "wrong versions" in bench.of(Warn)[0].message


def test_a_voter_with_other_endpoints_than_its_record_updates_it() -> None:
    bench = FollowerBench(1)
    bench.wait()
    assert not bench.sent(UpdateVoterRequest)
    moved = replace(voter(1), endpoints=voter(7).endpoints)
    bench.receive(moved, voter(2), voter(3))
    (send, request) = bench.sent(UpdateVoterRequest)[0]
    assert request == UpdateVoterRequest(cluster_id=CLUSTER, epoch=1, voter=voter(1))
    bench.respond(send, VoterChangeResponse(error=OK, leader=LeaderHint(1, 2)))
    assert not bench.of(Warn)
