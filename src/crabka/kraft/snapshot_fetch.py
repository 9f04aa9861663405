"""Snapshots that a replica fetches from the leader because it is too far behind (KIP-630).

Pieces come in order: the position must be where the last one ended, id and size must not change. Anything else starts
the fetch over.
"""

from __future__ import annotations

from crabka.kraft.actions import InstallSnapshot, WriteSnapshotChunk
from crabka.kraft.events import SnapshotInstalled, SnapshotRefused
from crabka.kraft.following import accept_from_leader, maybe_settle, note_leader_heard, pause_fetches
from crabka.kraft.leader_role import LeaderRole
from crabka.kraft.log_view import BOOTSTRAP_SNAPSHOT
from crabka.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotRange
from crabka.kraft.requests import SentRequest
from crabka.kraft.roles import FollowerRole, SnapshotDownload
from crabka.kraft.state import CoreState
from crabka.kraft.transitions import observe
from crabka.protocol.error_codes import ErrorCode


def build_snapshot_fetch(state: CoreState, download: SnapshotDownload) -> FetchSnapshotRequest:
    """Return the request for the next piece."""
    return FetchSnapshotRequest(
        cluster_id=state.local.cluster_id,
        replica=state.key,
        epoch=state.epoch,
        snapshot=download.snapshot,
        position=download.position,
        max_bytes=state.settings.fetch_max_bytes,
    )


def handle_snapshot_fetch(state: CoreState, token: object, request: FetchSnapshotRequest, now_ms: int) -> None:
    """Serve a piece of a snapshot; the replica that asks is alive and counts for check quorum."""
    if state.accepts_cluster(request.cluster_id):
        error = state.leader_only_error(request.epoch)
    else:
        error = ErrorCode.inconsistent_cluster_id
    size = state.log.snapshot_size(request.snapshot)
    if error is ErrorCode.none and (size is None or request.snapshot == BOOTSTRAP_SNAPSHOT):
        error = ErrorCode.snapshot_not_found
    if error is ErrorCode.none and not 0 <= request.position < (size or 0):
        error = ErrorCode.position_out_of_range
    if error is not ErrorCode.none or not isinstance(state.role, LeaderRole):
        state.reply(token, FetchSnapshotResponse(error=error, leader=state.hint()))
        return
    state.role.note_heard(request.replica, now_ms, state.settings.check_quorum_timeout_ms)
    state.reply(
        token,
        FetchSnapshotResponse(
            error=error,
            leader=state.hint(),
            snapshot=request.snapshot,
            size=size or 0,
            position=request.position,
            data=SnapshotRange(request.snapshot, request.position, max(0, request.max_bytes)),
        ),
    )


def handle_snapshot_response(state: CoreState, sent: SentRequest, response: FetchSnapshotResponse, now_ms: int) -> bool:
    """Take a piece; return False if the leader should be left alone for a moment."""
    if response.error in (ErrorCode.snapshot_not_found, ErrorCode.position_out_of_range):
        observe(state, response.leader, now_ms, f"snapshot response of {sent.node_id}")
        if isinstance(state.role, FollowerRole) and response.leader.epoch == state.epoch:
            # The leader has a newer one, which the next fetch will name.
            state.role.download = None
            note_leader_heard(state, state.role, now_ms)
        return True
    role = accept_from_leader(state, sent, response, now_ms)
    if role is None or role.download is None or not isinstance(response.data, bytes):
        return False
    if not _fits(state, role.download, response):
        state.warn(f"snapshot {role.download.snapshot} is fetched anew: a piece does not fit")
        role.download = None
        return False
    _take(state, role.download, response.data, response.size)
    note_leader_heard(state, role, now_ms)
    return True


def handle_installed(state: CoreState, event: SnapshotInstalled) -> None:
    """Continue after the snapshot; its voters are in force and everything in it is committed."""
    state.history.restart(event.snapshot, event.voters, event.kraft_version)
    state.flushed_offset = event.snapshot.offset
    if isinstance(state.role, FollowerRole):
        state.role.download = None
    state.raise_high_watermark(event.snapshot.offset)
    maybe_settle(state)


def handle_refused(state: CoreState, event: SnapshotRefused, now_ms: int) -> None:
    """Fetch a malformed snapshot again, after a pause."""
    state.warn(f"snapshot {event.snapshot} is fetched anew: {event.reason}")
    if isinstance(state.role, FollowerRole):
        state.role.download = None
        pause_fetches(state, state.role, now_ms)


def _fits(state: CoreState, download: SnapshotDownload, response: FetchSnapshotResponse) -> bool:
    if response.snapshot != download.snapshot or response.position != download.position or download.installing:
        return False
    if download.size not in (None, response.size) or response.size > state.settings.snapshot_max_bytes:
        return False
    return isinstance(response.data, bytes) and 0 < len(response.data) <= response.size - response.position


def _take(state: CoreState, download: SnapshotDownload, data: bytes, size: int) -> None:
    state.emit(WriteSnapshotChunk(download.snapshot, download.position, data))
    download.size = size
    download.position += len(data)
    if download.position == size:
        download.installing = True
        state.emit(InstallSnapshot(download.snapshot))
