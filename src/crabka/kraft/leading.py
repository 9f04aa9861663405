"""A leader's side of replication: serve fetches, count what is durable where, move the high watermark (KIP-595)."""

from __future__ import annotations

from crabka.kraft.leader_role import LeaderRole, ParkedFetch
from crabka.kraft.log_view import FetchPosition, judge_position
from crabka.kraft.messages import (
    DescribeResponse,
    LogRange,
    MetadataFetchRequest,
    MetadataFetchResponse,
    ReplicaDescription,
)
from crabka.kraft.reconfiguration import conclude_change
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import to_resigned, to_unattached
from crabka.protocol.error_codes import ErrorCode


def handle_fetch(state: CoreState, token: object, request: MetadataFetchRequest, now_ms: int) -> None:
    """Answer with records, a divergence or a snapshot; park the request while there is nothing to return."""
    error = _fetch_error(state, request)
    if error is ErrorCode.unknown_leader_epoch:
        _maybe_give_way(state, request, now_ms)
    role = state.role
    if error is not ErrorCode.none or not isinstance(role, LeaderRole):
        state.reply(token, MetadataFetchResponse(error=error, leader=state.hint()))
        return
    kind, position = judge_position(state.log, request.fetch_offset, request.last_fetched_epoch)
    if kind is not FetchPosition.VALID:
        response = _response(
            state,
            role,
            diverging=position if kind is FetchPosition.DIVERGING else None,
            snapshot=position if kind is FetchPosition.SNAPSHOT else None,
        )
        state.reply(token, response)
        return
    if request.replica.node_id >= 0:
        _record_fetch(state, role, request, now_ms)
    if state.role is not role:
        # The fetch committed the removal of this very leader.
        state.reply(token, MetadataFetchResponse(error=ErrorCode.not_leader_or_follower, leader=state.hint()))
        return
    parked = ParkedFetch(token, request, now_ms + request.max_wait_ms)
    if request.max_wait_ms == 0 or _has_news(state, role, request):
        _answer(state, role, parked)
    else:
        _park(state, role, parked)


def advance_high_watermark(state: CoreState, now_ms: int) -> None:
    """Commit what a majority holds; a leader that its quorum removed hands over once that is committed."""
    role = state.role
    if not isinstance(role, LeaderRole):
        return
    offset = role.majority_offset(state.flushed_offset)
    if not may_commit(role, offset):
        return
    role.high_watermark = offset
    state.raise_high_watermark(offset)
    conclude_change(state, role)
    if not state.is_voter and state.history.voters_offset < offset:
        to_resigned(state, now_ms, "no longer a voter")
        return
    answer_parked(state, role)


def may_commit(role: LeaderRole, offset: int) -> bool:
    """Whether an offset is past the start of the leader's own epoch (Raft, figure 8) and past what is committed."""
    return offset > role.epoch_start_offset and (role.high_watermark is None or offset > role.high_watermark)


def answer_parked(state: CoreState, role: LeaderRole) -> None:
    """Answer the fetches that have something to return now."""
    waiting, role.parked = role.parked, []
    for parked in waiting:
        if _has_news(state, role, parked.request):
            _answer(state, role, parked)
        else:
            role.parked.append(parked)


def expire_parked(state: CoreState, role: LeaderRole, now_ms: int) -> None:
    """Answer the fetches that waited long enough."""
    waiting, role.parked = role.parked, []
    for parked in waiting:
        if parked.deadline_ms <= now_ms:
            _answer(state, role, parked)
        else:
            role.parked.append(parked)


def handle_describe(state: CoreState, token: object, now_ms: int) -> None:
    """Return the state of the quorum as its leader knows it."""
    role = state.role
    if not isinstance(role, LeaderRole):
        error = ErrorCode.not_leader_or_follower
        state.reply(token, DescribeResponse(error=error, leader=state.hint()))
        return
    role.forget_idle_observers(now_ms)
    response = DescribeResponse(
        error=ErrorCode.none,
        leader=state.hint(),
        high_watermark=role.high_watermark,
        voters=role.describe(state.voters, state.log.end_offset, now_ms),
        observers=tuple(
            ReplicaDescription(key, progress.end_offset, progress.last_fetch_ms, progress.last_caught_up_ms)
            for key, progress in role.observers.items()
        ),
    )
    state.reply(token, response)


def _fetch_error(state: CoreState, request: MetadataFetchRequest) -> ErrorCode:
    if not state.accepts_cluster(request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    malformed = (
        request.max_wait_ms < 0
        or request.fetch_offset < 0
        or not 0 <= request.last_fetched_epoch <= request.epoch
        or request.replica.node_id == state.key.node_id
    )
    return ErrorCode.invalid_request if malformed else state.leader_only_error(request.epoch)


def _maybe_give_way(state: CoreState, request: MetadataFetchRequest, now_ms: int) -> None:
    """A leader follows Raft's rule for a higher epoch in a fetch, too: else an observer in it is stuck for good."""
    if not isinstance(state.role, LeaderRole) or request.replica.node_id < 0:
        return
    if state.epochs.take_request(state.epoch, request.epoch, now_ms):
        to_unattached(state, request.epoch, now_ms, f"fetch of {request.replica}")


def _record_fetch(state: CoreState, role: LeaderRole, request: MetadataFetchRequest, now_ms: int) -> None:
    progress = role.progress_of(request.replica, now_ms)
    progress.record_fetch(request.fetch_offset, state.log.end_offset, now_ms)
    progress.begin_at_ms = now_ms + state.settings.begin_quorum_period_ms
    role.note_heard(request.replica, now_ms, state.settings.check_quorum_timeout_ms)
    advance_high_watermark(state, now_ms)


def _has_news(state: CoreState, role: LeaderRole, request: MetadataFetchRequest) -> bool:
    if request.fetch_offset < state.log.end_offset:
        return True
    known = request.high_watermark
    return known is not None and role.high_watermark is not None and role.high_watermark > known


def _park(state: CoreState, role: LeaderRole, parked: ParkedFetch) -> None:
    """A replica has one fetch under way: an older one of the same replica is answered as it is."""
    replica = parked.request.replica
    for older in [other for other in role.parked if other.request.replica == replica and replica.node_id >= 0]:
        role.parked.remove(older)
        _answer(state, role, older)
    role.parked.append(parked)


def _answer(state: CoreState, role: LeaderRole, parked: ParkedFetch) -> None:
    request = parked.request
    max_bytes = max(0, min(request.max_bytes, state.settings.fetch_max_bytes))
    records = LogRange(request.fetch_offset, max_bytes) if request.fetch_offset < state.log.end_offset else None
    state.reply(parked.token, _response(state, role, records=records))


def _response(state: CoreState, role: LeaderRole, **content: object) -> MetadataFetchResponse:
    return MetadataFetchResponse(
        error=ErrorCode.none,
        leader=state.hint(),
        high_watermark=role.high_watermark,
        log_start_offset=state.log.start_offset,
        **content,  # type: ignore[arg-type]
    )
