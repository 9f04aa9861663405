"""A follower's side of replication: fetch, append, truncate, follow the high watermark (KIP-595).

A fetch says that everything before its offset is durable, so none leaves while the log has an end that is not synced.
"""

from __future__ import annotations

from crabka.kraft.actions import AppendRecords, SettleLoss, TruncateLog
from crabka.kraft.events import LogAppended
from crabka.kraft.log_view import OffsetAndEpoch, end_of_log, truncation_offset
from crabka.kraft.messages import FetchSnapshotResponse, MetadataFetchRequest, MetadataFetchResponse
from crabka.kraft.requests import SentRequest
from crabka.kraft.roles import FollowerRole, SnapshotDownload
from crabka.kraft.settings import refused_records_backoff_ms
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import observe
from crabka.protocol.error_codes import ErrorCode

# Far below what an int64 holds, and more records than a metadata log can ever have.
MAX_OFFSET = 1 << 62


def build_fetch(state: CoreState) -> MetadataFetchRequest:
    """Return the fetch at the log end."""
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
        if not _truncate(state, response.diverging, now_ms):
            return False
    elif response.snapshot is not None:
        if not _is_possible(state, response.snapshot):
            text = f"leader {sent.node_id} offers snapshot {response.snapshot}, which cannot be"
            state.warn_of_peer(text, now_ms)
            return False
        role.download = SnapshotDownload(response.snapshot)
    else:
        if request.fetch_offset != state.log.end_offset:
            return False
        role.leader_high_watermark = response.high_watermark
        if response.records:
            # Whether this counts as contact with the leader depends on its records: see `handle_appended`.
            state.emit(AppendRecords(request.fetch_offset, state.epoch, response.records))
            return True
        follow_high_watermark(state)
    note_leader_heard(state, role, now_ms)
    return True


def handle_appended(state: CoreState, role: FollowerRole, event: LogAppended, now_ms: int) -> None:
    """Records of the leader are in the log. A leader whose records cannot be appended does not count as in contact.

    It is asked again after a pause that doubles; its fetch time-out goes on, so that another voter can stand.
    """
    if not event.refused:
        role.refused_count = 0
        note_leader_heard(state, role, now_ms)
    else:
        pause_fetches(state, role, now_ms)
    follow_high_watermark(state)


def pause_fetches(state: CoreState, role: FollowerRole, now_ms: int) -> None:
    """Leave a leader alone for a while whose records or snapshot had to be refused."""
    role.refused_count += 1
    wait = refused_records_backoff_ms(state.settings, role.refused_count)
    state.requests.pause(SentRequest(role.leader.node_id, build_fetch(state)), now_ms + wait)


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
    role.in_contact = True
    role.fetch_deadline_ms = now_ms + state.settings.fetch_timeout_ms


def maybe_settle(state: CoreState) -> None:
    """A replica that lost durable entries is whole again once a leader has brought it back, durably.

    That is so at the lost end, or in a later epoch: a leader has all that is committed. It is also so at the high
    watermark of a leader that committed in its own epoch, which may lie lower if what was lost was never committed.
    """
    role = state.role
    if state.lost_end is None or not isinstance(role, FollowerRole) or state.flushed_offset != state.log.end_offset:
        return
    committed = role.leader_high_watermark
    if end_of_log(state.log).recency >= state.lost_end.recency or (
        committed is not None and state.flushed_offset >= committed
    ):
        state.lost_end = None
        state.emit(SettleLoss(end_of_log(state.log)))


def follow_high_watermark(state: CoreState) -> None:
    """Commit what the leader committed, as far as the own log goes."""
    role = state.role
    if isinstance(role, FollowerRole) and role.leader_high_watermark is not None:
        state.raise_high_watermark(min(role.leader_high_watermark, state.log.end_offset))
        maybe_settle(state)


def _truncate(state: CoreState, diverging: OffsetAndEpoch, now_ms: int) -> bool:
    """Truncate records that the leader lacks; return False, and no contact, if it lacks committed records."""
    offset = truncation_offset(state.log, diverging)
    committed = state.high_watermark or 0
    if offset < committed:
        text = f"the leader asks to cut at {offset}, below the high watermark {committed}: it is not followed"
        state.warn_of_peer(text, now_ms)
        return False
    if offset < state.log.end_offset:
        state.emit(TruncateLog(offset))
    return True


def _is_possible(state: CoreState, snapshot: OffsetAndEpoch) -> bool:
    """Whether a leader can have such a snapshot: of records that are committed, in an epoch that there was."""
    return max(1, state.high_watermark or 0) <= snapshot.offset <= MAX_OFFSET and 0 <= snapshot.epoch <= state.epoch
