from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.kraft.actions import InstallSnapshot, Send, Warn, WriteSnapshotChunk
from crabka.kraft.events import SnapshotRefused
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderHint,
    MetadataFetchRequest,
    MetadataFetchResponse,
    SnapshotRange,
)
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import SnapshotFile
from tests.support.quorum.kraft_bench import CLUSTER, OK, CoreBench, voter, voter_set

EPOCH = 4
SNAPSHOT = OffsetAndEpoch(30, 3)
HINT = LeaderHint(EPOCH, 2)


def piece(position: int, data: bytes, size: int = 6) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(error=OK, leader=HINT, snapshot=SNAPSHOT, size=size, position=position, data=data)


def downloading() -> tuple[CoreBench, Send]:
    bench = CoreBench()
    bench.snapshot_file = SnapshotFile(voter_set(1, 2, 3, 4), 1, b"abcdef")
    bench.follow(2, EPOCH)
    bench.respond(
        bench.sent(MetadataFetchRequest)[0][0], MetadataFetchResponse(error=OK, leader=HINT, snapshot=SNAPSHOT)
    )
    return bench, bench.sent(FetchSnapshotRequest)[0][0]


def test_a_snapshot_is_fetched_in_order_and_installed() -> None:
    bench, send = downloading()
    assert isinstance(send.request, FetchSnapshotRequest)
    assert (send.request.snapshot, send.request.position) == (SNAPSHOT, 0)
    bench.respond(send, piece(0, b"abcd"))
    assert bench.of(WriteSnapshotChunk) == [WriteSnapshotChunk(SNAPSHOT, 0, b"abcd")]
    send, request = bench.sent(FetchSnapshotRequest)[0]
    assert request.position == 4
    bench.respond(send, piece(4, b"ef"))
    assert bench.of(InstallSnapshot) == [InstallSnapshot(SNAPSHOT)]
    assert bench.core.high_watermark == 30
    assert bench.core.voters == voter_set(1, 2, 3, 4)
    fetch = bench.sent(MetadataFetchRequest)[0][1]
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (30, 3)


@pytest.mark.parametrize(
    "response",
    [
        piece(2, b"cd"),
        piece(0, b""),
        piece(0, b"abcdefg"),
        piece(0, b"abc", size=1 << 40),
        replace(piece(0, b"abc"), snapshot=OffsetAndEpoch(31, 3)),
    ],
)
def test_a_piece_that_does_not_fit_starts_the_fetch_over(response: FetchSnapshotResponse) -> None:
    bench, send = downloading()
    bench.respond(send, response)
    assert not bench.of(WriteSnapshotChunk)
    assert bench.of(Warn)
    assert bench.sent(MetadataFetchRequest)
    assert bench.core._state.role.download is None  # type: ignore[union-attr]


def test_a_size_that_changes_starts_the_fetch_over() -> None:
    bench, send = downloading()
    bench.respond(send, piece(0, b"abcd"))
    bench.respond(bench.sent(FetchSnapshotRequest)[0][0], piece(4, b"ef", size=7))
    assert not bench.of(InstallSnapshot)


def test_a_snapshot_that_the_leader_lost_is_asked_for_anew() -> None:
    bench, send = downloading()
    bench.respond(send, FetchSnapshotResponse(error=ErrorCode.snapshot_not_found, leader=HINT))
    assert bench.sent(MetadataFetchRequest)


def test_a_malformed_snapshot_is_fetched_again() -> None:
    bench, _ = downloading()
    bench.step(SnapshotRefused(SNAPSHOT, "bad crc"))
    assert bench.of(Warn)
    assert bench.core._state.role.download is None  # type: ignore[union-attr]


def request(position: int = 0, epoch: int = 1) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        cluster_id=CLUSTER,
        replica=voter(2).key,
        epoch=epoch,
        snapshot=OffsetAndEpoch(2, 1),
        position=position,
        max_bytes=3,
    )


def serving() -> CoreBench:
    bench = CoreBench()
    bench.lead()
    bench.fetch_from(2)
    bench.log.snapshots[OffsetAndEpoch(2, 1)] = SnapshotFile(voter_set(1, 2, 3), 1, b"abcdef")
    return bench


def test_a_leader_serves_pieces_and_counts_the_replica_as_alive() -> None:
    bench = serving()
    bench.now_ms += 2000
    response = bench.ask(request(position=2))
    assert isinstance(response, FetchSnapshotResponse)
    assert response.data == SnapshotRange(OffsetAndEpoch(2, 1), 2, 3)
    assert (response.size, response.position) == (6, 2)
    assert bench.leader_role.check_quorum_deadline_ms == bench.now_ms + bench.settings.check_quorum_timeout_ms


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (replace(request(), cluster_id="other"), ErrorCode.inconsistent_cluster_id),
        (request(epoch=0), ErrorCode.fenced_leader_epoch),
        (request(epoch=2), ErrorCode.unknown_leader_epoch),
        (replace(request(), snapshot=OffsetAndEpoch(1, 1)), ErrorCode.snapshot_not_found),
        (replace(request(), snapshot=OffsetAndEpoch(0, 0)), ErrorCode.snapshot_not_found),
        (request(position=6), ErrorCode.position_out_of_range),
        (request(position=-1), ErrorCode.position_out_of_range),
    ],
)
def test_a_piece_that_cannot_be_served_is_refused(asked: FetchSnapshotRequest, error: ErrorCode) -> None:
    response = serving().ask(asked)
    assert isinstance(response, FetchSnapshotResponse)
    assert response.error is error
