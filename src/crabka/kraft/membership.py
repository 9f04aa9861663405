"""What a follower asks of its leader about its own place among the voters (KIP-853).

A voter whose record says something else than the voter itself sends UpdateRaftVoter. A controller that is to join by
itself asks to be added; where the record names another directory of the same node, as after the loss of a disk, it
asks for the removal of that one first.
"""

from __future__ import annotations

from crabka.kraft.messages import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest, VoterChangeResponse
from crabka.kraft.requests import SentRequest
from crabka.kraft.roles import FollowerRole
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import observe
from crabka.kraft.voters import DYNAMIC_VOTERS_VERSION
from crabka.protocol.error_codes import ErrorCode

VoterRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest
# Answers after which the replica just looks again later: done, done before, or another change is under way.
_EXPECTED = frozenset(
    (ErrorCode.none, ErrorCode.request_timed_out, ErrorCode.duplicate_voter, ErrorCode.voter_not_found)
)


def own_voter_request(state: CoreState, role: FollowerRole) -> VoterRequest | None:
    """Return what the leader must be asked for, None if the voters are as this replica wants them."""
    if state.is_voter:
        return _update(state) if _is_misknown(state, role) else None
    wanted = state.local.auto_join and not state.shutting_down
    return _join(state) if wanted and state.history.kraft_version >= DYNAMIC_VOTERS_VERSION else None


def handle_voter_change_response(
    state: CoreState, sent: SentRequest, response: VoterChangeResponse, now_ms: int
) -> None:
    """Take the leader's answer; whatever it did comes back as a voter record."""
    observe(state, response.leader, now_ms, f"answer of {sent.node_id} about voters")
    if isinstance(sent.request, UpdateVoterRequest):
        if isinstance(state.role, FollowerRole) and response.error is ErrorCode.none:
            state.role.told_leader = True
    elif response.error not in _EXPECTED:
        state.warn(f"the leader refuses to make this node a voter: {response.error.name} {response.message}")


def _is_misknown(state: CoreState, role: FollowerRole) -> bool:
    if state.history.kraft_version < DYNAMIC_VOTERS_VERSION:
        return not role.told_leader
    return state.voters.needs_update(state.local.node)


def _update(state: CoreState) -> UpdateVoterRequest:
    return UpdateVoterRequest(cluster_id=state.local.cluster_id, epoch=state.epoch, voter=state.local.node)


def _join(state: CoreState) -> AddVoterRequest | RemoveVoterRequest:
    cluster_id, timeout_ms = state.local.cluster_id, state.settings.request_timeout_ms
    namesake = state.voters.get(state.key.node_id)
    if namesake is not None:
        return RemoveVoterRequest(cluster_id=cluster_id, voter=namesake.key, timeout_ms=timeout_ms)
    # The new voter may be needed to commit its own record: it must not wait for that before it fetches on.
    return AddVoterRequest(
        cluster_id=cluster_id,
        voter=state.key,
        endpoints=state.local.node.endpoints,
        timeout_ms=timeout_ms,
        ack_when_committed=False,
    )
