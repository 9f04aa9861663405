"""Changes of the voter set and of kraft.version (KIP-853).

One change at a time, only by a leader that committed a record of its own epoch, only after the last voter record is
committed. So any two voter sets that can both be in force differ by one voter, and their majorities overlap.
"""

from __future__ import annotations

from dataclasses import replace

from crabka.ids import ZERO_UUID
from crabka.kraft.actions import AppendControl, ControlRecord, KRaftVersionChange, VotersChange
from crabka.kraft.leader_role import ChangeKind, LeaderRole, PendingChange
from crabka.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeRequest,
    UpgradeResponse,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
)
from crabka.kraft.requests import SentRequest
from crabka.kraft.settings import CAUGHT_UP_WITHIN_MS
from crabka.kraft.state import CoreState
from crabka.kraft.voters import (
    DYNAMIC_VOTERS_VERSION,
    NEWEST_KRAFT_VERSION,
    Peer,
    VoterEndpoint,
    VoterNode,
    VoterSet,
)
from crabka.protocol.error_codes import ErrorCode

MAX_PORT = 65_535
Refusal = tuple[ErrorCode, str]


def handle_add(state: CoreState, token: object, request: AddVoterRequest, now_ms: int) -> None:
    """Begin to add a voter: first its versions are asked for, which also shows that it can be reached."""
    refusal = _refusal(state, request.cluster_id)
    role = state.role
    if refusal is None and request.voter.node_id < 0:
        refusal = (ErrorCode.invalid_request, f"{request.voter.node_id} is no node id")
    if refusal is None and (request.voter.directory_id == ZERO_UUID or not _can_be_dialled(request.endpoints)):
        refusal = (ErrorCode.invalid_request, "a new voter needs a directory id and an endpoint")
    if refusal is None and request.voter.node_id in state.voters.ids:
        refusal = (ErrorCode.duplicate_voter, f"node {request.voter.node_id} is a voter already: {state.voters}")
    if refusal is not None or not isinstance(role, LeaderRole):
        _refuse(state, token, refusal)
        return
    voter = VoterNode(request.voter.node_id, request.voter.directory_id, request.endpoints)
    role.pending = PendingChange(
        ChangeKind.ADD, token, voter, now_ms + request.timeout_ms, ack_when_committed=request.ack_when_committed
    )
    state.send(Peer(voter.voter_id, voter.endpoints), VersionsRequest())


def handle_versions_response(state: CoreState, sent: SentRequest, response: VersionsResponse, now_ms: int) -> bool:
    """The new voter answered: append the new voter set if it can run at our level and is caught up."""
    role = state.role
    pending = role.pending if isinstance(role, LeaderRole) else None
    if not isinstance(role, LeaderRole) or pending is None or pending.kind is not ChangeKind.ADD:
        return True
    if pending.offset is not None or pending.voter.voter_id != sent.node_id:
        return True
    level = state.history.kraft_version
    if response.error is not ErrorCode.none:
        _abort(state, role, (ErrorCode.request_timed_out, f"its ApiVersions failed: {response.error.name}"))
        return True
    low, high = response.kraft_versions or (0, 0)
    voter = replace(pending.voter, min_kraft_version=low, max_kraft_version=high)
    voters = state.voters.maybe_add(voter)
    if not 0 <= low <= high or not voter.supports(level) or voters is None:
        _abort(state, role, (ErrorCode.invalid_request, f"its kraft.version range {low}-{high} lacks {level}"))
    elif not is_caught_up(role, voter, now_ms):
        _abort(state, role, (ErrorCode.request_timed_out, "it is not caught up with the log"))
    else:
        pending.voter = voter
        pending.offset = _append_voters(state, voters)
        if not pending.ack_when_committed:
            _accept(state, pending)
    return True


def handle_versions_failure(state: CoreState, node_id: int) -> None:
    """The new voter cannot be reached."""
    role = state.role
    if isinstance(role, LeaderRole) and role.pending is not None and role.pending.offset is None:
        _abort(state, role, (ErrorCode.request_timed_out, f"node {node_id} cannot be reached"))


def handle_remove(state: CoreState, token: object, request: RemoveVoterRequest, now_ms: int) -> None:
    """Remove exactly this replica; a leader may remove itself and leads until that is committed."""
    refusal = _refusal(state, request.cluster_id)
    role = state.role
    if refusal is None and request.voter.directory_id == ZERO_UUID:
        refusal = (ErrorCode.invalid_request, "a voter to remove needs a directory id")
    voter = state.voters.get(request.voter.node_id)
    voters = state.voters.maybe_remove(request.voter)
    if refusal is None and voters is None:
        refusal = (ErrorCode.voter_not_found, f"{request.voter} is not one of the voters {state.voters}")
    if refusal is None and not voters:
        refusal = (ErrorCode.invalid_request, "the last voter cannot be removed")
    if refusal is not None or not isinstance(role, LeaderRole) or voter is None or voters is None:
        _refuse(state, token, refusal)
        return
    role.pending = PendingChange(ChangeKind.REMOVE, token, voter, now_ms + request.timeout_ms)
    role.pending.offset = _append_voters(state, voters)


def handle_update(state: CoreState, token: object, request: UpdateVoterRequest) -> None:
    """Take endpoints and versions of a voter: into the log, or only into memory below kraft.version 1."""
    role = state.role
    node = request.voter
    if state.accepts_cluster(request.cluster_id):
        error = state.leader_only_error(request.epoch)
    else:
        error = ErrorCode.inconsistent_cluster_id
    if error is ErrorCode.none and (
        node.directory_id == ZERO_UUID
        or not _can_be_dialled(node.endpoints)
        or not 0 <= node.min_kraft_version <= node.max_kraft_version
    ):
        error = ErrorCode.invalid_request
    if error is not ErrorCode.none or not isinstance(role, LeaderRole):
        state.reply(token, VoterChangeResponse(error=error, leader=state.hint()))
        return
    if state.history.kraft_version < DYNAMIC_VOTERS_VERSION:
        error = _update_in_memory(role, node)
    else:
        error = _update_in_log(state, node)
    state.reply(token, VoterChangeResponse(error=error, leader=state.hint()))


def handle_upgrade(state: CoreState, token: object, request: UpgradeRequest) -> None:
    """Raise kraft.version from 0 to 1: the voters, until now in the config, become records."""
    role = state.role
    level = state.history.kraft_version
    if not isinstance(role, LeaderRole):
        error, message = ErrorCode.not_leader_or_follower, ""
    elif role.pending is not None or role.high_watermark is None:
        error, message = ErrorCode.request_timed_out, "the leader has not committed in its epoch or changes voters"
    elif request.kraft_version < level:
        error, message = ErrorCode.invalid_update_version, f"kraft.version cannot go back from {level}"
    elif request.kraft_version > NEWEST_KRAFT_VERSION or not role.reported_voters.all_support(request.kraft_version):
        error, message = ErrorCode.invalid_update_version, f"not every voter supports {request.kraft_version}"
    elif request.kraft_version > level and any(node.directory_id == ZERO_UUID for node in role.reported_voters.nodes):
        error, message = ErrorCode.invalid_update_version, "not every voter has reported its directory id yet"
    else:
        error, message = ErrorCode.none, ""
        if request.kraft_version > level and not request.validate_only:
            _append(state, (KRaftVersionChange(request.kraft_version), VotersChange(role.reported_voters)))
    state.reply(token, UpgradeResponse(error=error, leader=state.hint(), message=message))


def conclude_change(state: CoreState, role: LeaderRole) -> None:
    """Answer the change under way once its record is committed."""
    pending = role.pending
    if pending is not None and pending.offset is not None and (role.high_watermark or 0) > pending.offset:
        _accept(state, pending)
        role.pending = None


def expire_change(state: CoreState, role: LeaderRole, now_ms: int) -> None:
    """Give up on a change that takes too long; a record in the log may still be committed later."""
    if role.pending is not None and role.pending.deadline_ms <= now_ms:
        _abort(state, role, (ErrorCode.request_timed_out, "it was not committed in time"))


def is_caught_up(role: LeaderRole, voter: VoterNode, now_ms: int) -> bool:
    """Whether an observer was at the end of the log lately: a bound that can hold while records keep coming."""
    progress = role.observers.get(voter.key)
    if progress is None or progress.last_caught_up_ms < 0:
        return False
    return now_ms - progress.last_fetch_ms < CAUGHT_UP_WITHIN_MS


def _can_be_dialled(endpoints: tuple[VoterEndpoint, ...]) -> bool:
    """Whether there are endpoints, each with a name of its own, a host and a port."""
    names = {endpoint.name for endpoint in endpoints}
    complete = all(endpoint.name and endpoint.host and 0 < endpoint.port <= MAX_PORT for endpoint in endpoints)
    return bool(endpoints) and complete and len(names) == len(endpoints)


def _refusal(state: CoreState, cluster_id: str | None) -> Refusal | None:
    """Return why no change of voters can begin now."""
    role = state.role
    if not state.accepts_cluster(cluster_id):
        return ErrorCode.inconsistent_cluster_id, f"this is cluster {state.local.cluster_id}"
    if not isinstance(role, LeaderRole):
        return ErrorCode.not_leader_or_follower, ""
    if role.pending is not None:
        return ErrorCode.request_timed_out, "another change of voters is under way"
    if role.high_watermark is None:
        return ErrorCode.request_timed_out, "the leader has not committed a record of its epoch yet"
    if state.history.kraft_version < DYNAMIC_VOTERS_VERSION:
        return ErrorCode.unsupported_version, f"kraft.version is {state.history.kraft_version}"
    if state.history.voters_offset >= role.high_watermark:
        return ErrorCode.request_timed_out, "the last change of voters is not committed yet"
    return None


def _update_in_memory(role: LeaderRole, node: VoterNode) -> ErrorCode:
    voters = role.reported_voters.maybe_update(node)
    if voters is None:
        return ErrorCode.voter_not_found
    role.reported_voters = voters
    return ErrorCode.none


def _update_in_log(state: CoreState, node: VoterNode) -> ErrorCode:
    refusal = _refusal(state, None)
    if refusal is not None:
        return refusal[0]
    if not node.supports(state.history.kraft_version):
        return ErrorCode.invalid_request
    voters = state.voters.maybe_update(node)
    if voters is None:
        return ErrorCode.voter_not_found
    if voters != state.voters:
        _append_voters(state, voters)
    return ErrorCode.none


def _append_voters(state: CoreState, voters: VoterSet) -> int:
    return _append(state, (VotersChange(voters),))


def _append(state: CoreState, records: tuple[ControlRecord, ...]) -> int:
    """Append a control batch and return the offset of its last record."""
    base_offset = state.log.end_offset
    state.emit(AppendControl(state.epoch, base_offset, records))
    return base_offset + len(records) - 1


def _refuse(state: CoreState, token: object, refusal: Refusal | None) -> None:
    error, message = refusal or (ErrorCode.not_leader_or_follower, "")
    state.reply(token, VoterChangeResponse(error=error, leader=state.hint(), message=message))


def _accept(state: CoreState, pending: PendingChange) -> None:
    if pending.token is not None:
        state.reply(pending.token, VoterChangeResponse(error=ErrorCode.none, leader=state.hint()))
    pending.token = None


def _abort(state: CoreState, role: LeaderRole, refusal: Refusal) -> None:
    pending, role.pending = role.pending, None
    if pending is not None and pending.token is not None:
        error, reason = refusal
        message = f"cannot {pending.kind.value} voter {pending.voter.key}: {reason}"
        state.reply(pending.token, VoterChangeResponse(error=error, leader=state.hint(), message=message))
