"""A follower's side of replication: fetch, append, truncate, follow the high watermark (KIP-595).

A fetch says that everything before its offset is durable, so none leaves while the log has an end that is not synced.
"""

from __future__ import annotations

from crabka.errors import require
from crabka.kraft.actions import AppendRecords, TruncateLog
from crabka.kraft.log_view import OffsetAndEpoch, truncation_offset
from crabka.kraft.messages import FetchSnapshotResponse, MetadataFetchRequest, MetadataFetchResponse
from crabka.kraft.requests import SentRequest
from crabka.kraft.roles import FollowerRole, SnapshotDownload
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import observe
from crabka.protocol.error_codes import ErrorCode


def build_fetch(state: CoreState) -> MetadataFetchRequest:
    """Return the fetch behind the log end."""
    return MetadataFetchRequest(
        cluster_id=state.local.cluster_id,
        replica=state.key,
        epoch=state.epoch,
        fetch_offset=state.log.end_offset,
        last_fetched_epoch=state.log.last_epoch,
        max_wait_ms=state.settings.fetch_max_wait_ms,
        max_bytes=state.settings.fetch_max_bytes,
        high_watermark=-1 if state.high_watermark is None else state.high_watermark,
    )


def may_fetch(state: CoreState) -> bool:
    """Whether all of the log is durable."""
    return state.flushed_offset == state.log.end_offset


def handle_fetch_response(state: CoreState, sent: SentRequest, response: MetadataFetchResponse, now_ms: int) -> bool:
    """Do what the leader says; return False if the peer should be left alone for a moment."""
    request = sent.request
    role = accept_from_leader(state, sent, response, now_ms)
    if role is None or not isinstance(request, MetadataFetchRequest):
        return False
    if response.diverging is not None:
        _truncate(state, response.diverging)
    elif response.snapshot is not None:
        role.download = SnapshotDownload(response.snapshot)
    else:
        if request.fetch_offset != state.log.end_offset:
            return False
        role.leader_high_watermark = response.high_watermark
        if response.records:
            state.emit(AppendRecords(request.fetch_offset, state.epoch, response.records))
        else:
            follow_high_watermark(state)
    note_leader_heard(state, role, now_ms)
    return True


def accept_from_leader(
    state: CoreState, sent: SentRequest, response: MetadataFetchResponse | FetchSnapshotResponse, now_ms: int
) -> FollowerRole | None:
    """Learn epoch and leader from a response; return the role if it comes from the leader of this epoch."""
    observe(state, response.leader, now_ms, f"fetch response of {sent.node_id}")
    role = state.role
    if response.error is not ErrorCode.none or response.leader.epoch != state.epoch:
        return None
    if not isinstance(role, FollowerRole) or role.leader.node_id != response.leader.leader_id:
        return None
    return role


def note_leader_heard(state: CoreState, role: FollowerRole, now_ms: int) -> None:
    """The leader answered: wait for it for another time-out."""
    role.heard = True
    role.fetch_deadline_ms = now_ms + state.settings.fetch_timeout_ms


def follow_high_watermark(state: CoreState) -> None:
    """Commit what the leader committed, as far as the own log goes."""
    role = state.role
    if isinstance(role, FollowerRole) and role.leader_high_watermark is not None:
        state.raise_high_watermark(min(role.leader_high_watermark, state.log.end_offset))


def _truncate(state: CoreState, diverging: OffsetAndEpoch) -> None:
    offset = truncation_offset(state.log, diverging)
    committed = state.high_watermark or 0
    require(offset >= committed, f"the leader asks to cut at {offset}, below the high watermark {committed}")
    if offset < state.log.end_offset:
        state.emit(TruncateLog(offset))
