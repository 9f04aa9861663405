from __future__ import annotations

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    DescribeResponse,
    FetchSnapshotResponse,
    LeaderHint,
    LogRange,
    MetadataFetchResponse,
    ReplicaDescription,
    SnapshotRange,
    VoteResponse,
)
from crabka.kraft.voters import ReplicaKey
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.answers import WireAnswer, fill_response
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.storage import MetadataStorage
from crabka.records.builder import build_batch
from crabka.records.record import Record
from tests.support.async_tests import real_time, run_with
from tests.support.quorum.node import DIRECTORY, QUIET, formatted_disk

HINT = LeaderHint(1, 1)
NONE = ErrorCode.none
BATCH = build_batch([Record(0, 10, None, encode_record(NoOpRecord()))], base_offset=0, leader_epoch=1)


class FixedClock:
    def now_ms(self) -> int:
        return 1_000_500

    def monotonic_ms(self) -> int:
        return 500

    def processor_ns(self) -> int:
        return 0


def _log() -> RaftLog:
    log = RaftLog(MetadataStorage.open(formatted_disk(), DIRECTORY, QUIET, now_ms=10))
    log.append_batches([BATCH], 10)
    return log


def test_records_and_pieces_of_snapshots_are_read() -> None:
    log = _log()
    fetched = MetadataFetchResponse(error=NONE, leader=HINT, records=LogRange(0, 1000))
    filled = fill_response(log, fetched, FixedClock())
    assert isinstance(filled, MetadataFetchResponse)
    assert filled.records == BATCH
    wanted = OffsetAndEpoch(0, 0)
    piece = FetchSnapshotResponse(error=NONE, leader=HINT, snapshot=wanted, data=SnapshotRange(wanted, 5, 7))
    answer = fill_response(log, piece, FixedClock())
    assert isinstance(answer, FetchSnapshotResponse)
    assert isinstance(answer.data, bytes)
    assert len(answer.data) == 7


def test_a_snapshot_that_went_away_is_not_found() -> None:
    gone = OffsetAndEpoch(9, 1)
    response = FetchSnapshotResponse(error=NONE, leader=HINT, snapshot=gone, size=9, data=SnapshotRange(gone, 0, 7))
    assert fill_response(_log(), response, FixedClock()).error is ErrorCode.snapshot_not_found


def test_replicas_are_described_by_the_wall_clock() -> None:
    replica = ReplicaDescription(ReplicaKey(1), 3, 400, -1)
    response = DescribeResponse(error=NONE, leader=HINT, voters=(replica,))
    filled = fill_response(_log(), response, FixedClock())
    assert isinstance(filled, DescribeResponse)
    assert (filled.voters[0].last_fetch_ms, filled.voters[0].last_caught_up_ms) == (1_000_400, -1)


@run_with(real_time)
async def test_an_answer_is_given_once_and_in_the_version_of_the_request() -> None:
    answer = WireAnswer(ApiKey.VOTE, 0, "CONTROLLER")
    answer.give(VoteResponse(error=NONE, leader=HINT, granted=True))
    answer.refuse(ErrorCode.invalid_request)
    body = await answer.done
    assert body.topics[0].partitions[0].vote_granted
    assert not hasattr(body, "node_endpoints")
    gone = WireAnswer(ApiKey.VOTE, 0, "CONTROLLER")
    gone.done.cancel()
    gone.give(VoteResponse(error=NONE, leader=HINT))
    refused = WireAnswer(ApiKey.VOTE, 2, "CONTROLLER")
    refused.refuse(ErrorCode.broker_not_available)
    assert (await refused.done).error_code is ErrorCode.broker_not_available
