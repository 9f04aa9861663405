from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.kraft.actions import AdvanceHighWatermark, Reply
from crabka.kraft.events import RequestReceived
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    DescribeRequest,
    DescribeResponse,
    LogRange,
    MetadataFetchRequest,
    MetadataFetchResponse,
    Response,
)
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry, SnapshotFile
from tests.support.quorum.kraft_bench import OK, CoreBench, fetch, voter, voter_set

OLD = (Entry(1, 0), Entry(1, 1))


def leading(**options: object) -> CoreBench:
    bench = CoreBench(**options)  # type: ignore[arg-type]
    bench.lead()
    return bench


def fetch_answer(response: Response | None) -> MetadataFetchResponse:
    assert isinstance(response, MetadataFetchResponse)
    return response


def test_records_are_served_with_leader_and_high_watermark() -> None:
    bench = leading(entries=OLD)
    response = fetch_answer(bench.fetch_from(2, 2))
    assert response.records == LogRange(2, 100)
    assert (response.error, response.leader.leader_id, response.high_watermark) == (OK, 1, None)


def test_the_high_watermark_passes_only_with_a_record_of_the_own_epoch() -> None:
    bench = leading(entries=OLD)
    bench.fetch_from(2, 2)
    assert bench.core.high_watermark is None
    bench.fetch_from(2)
    assert bench.core.high_watermark == bench.log.end_offset == 5


def test_an_observer_commits_nothing() -> None:
    bench = leading()
    bench.fetch_from(9)
    stranger = ReplicaKey(2, voter(9).directory_id)
    bench.ask(fetch(stranger, bench.core.epoch, bench.log.end_offset, bench.log.last_epoch))
    assert bench.core.high_watermark is None
    assert voter(9).key in bench.leader_role.observers


def test_the_leader_counts_itself_only_with_what_is_durable() -> None:
    bench = CoreBench()
    bench.syncs = False
    bench.lead()
    bench.fetch_from(2)
    assert bench.core.high_watermark is None
    bench.flush()
    assert bench.core.high_watermark == bench.log.end_offset


def test_a_diverging_replica_learns_where() -> None:
    bench = leading(entries=OLD)
    response = fetch_answer(bench.ask(fetch(voter(2).key, bench.core.epoch, 4, 1)))
    assert response.diverging == OffsetAndEpoch(2, 1)
    assert response.records is None
    assert bench.leader_role.voters[2].end_offset == -1


def test_a_replica_that_is_too_far_behind_is_sent_to_the_snapshot() -> None:
    bench = leading(entries=OLD)
    bench.fetch_from(2)
    snapshot = OffsetAndEpoch(4, bench.log.epoch_at(3) or 0)
    bench.log.snapshots[snapshot] = SnapshotFile(voter_set(1, 2, 3), 1, b"x")
    bench.log.prune(snapshot)
    response = fetch_answer(bench.ask(fetch(voter(3).key, bench.core.epoch, 1, 1)))
    assert response.snapshot == snapshot


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.inconsistent_cluster_id),
        ({"epoch": 0, "last_fetched_epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"epoch": 9}, ErrorCode.unknown_leader_epoch),
        ({"fetch_offset": -1}, ErrorCode.invalid_request),
        ({"last_fetched_epoch": -1}, ErrorCode.invalid_request),
        ({"last_fetched_epoch": 9}, ErrorCode.invalid_request),
        ({"max_wait_ms": -1}, ErrorCode.invalid_request),
        ({"replica": voter(1).key}, ErrorCode.invalid_request),
    ],
)
def test_a_malformed_or_misled_fetch_is_refused(change: dict[str, object], error: ErrorCode) -> None:
    bench = leading()
    request: MetadataFetchRequest = replace(fetch(voter(2).key, 1, 0, 0), **change)  # type: ignore[arg-type]
    assert fetch_answer(bench.ask(request)).error is error


def test_a_follower_names_the_leader() -> None:
    bench = CoreBench()
    bench.follow(2, 1)
    response = fetch_answer(bench.ask(fetch(voter(3).key, 1, 0, 0)))
    assert (response.error, response.leader.leader_id) == (ErrorCode.not_leader_or_follower, 2)
    assert response.leader.endpoints == voter(2).endpoints


def test_a_fetch_waits_for_records() -> None:
    bench = leading()
    bench.fetch_from(2)
    assert bench.fetch_from(3, wait_ms=500) is None
    bench.append(7)
    responses = [action.response for action in bench.of(Reply)]
    assert [fetch_answer(response).records for response in responses] == [LogRange(bench.log.end_offset - 1, 100)]


def test_a_fetch_waits_for_a_new_high_watermark() -> None:
    bench = leading()
    end = bench.log.end_offset
    request = replace(fetch(voter(3).key, 1, end, 1, wait_ms=500), high_watermark=end)
    bench.fetch_from(2)
    bench.append(7)
    bench.fetch_from(2)
    later = replace(request, fetch_offset=end + 1)
    assert bench.core.high_watermark == end + 1
    assert fetch_answer(bench.ask(later)).high_watermark == end + 1
    assert bench.ask(replace(later, high_watermark=end + 1)) is None
    assert bench.ask(replace(later, high_watermark=None, replica=voter(9).key)) is None


def test_a_waiting_fetch_ends_with_its_time_and_with_the_leadership() -> None:
    bench = leading()
    bench.fetch_from(2)
    assert bench.fetch_from(2, wait_ms=500) is None
    assert bench.core.next_deadline_ms is not None
    bench.pass_time(500)
    assert fetch_answer(bench.of(Reply)[0].response).error is OK
    assert bench.fetch_from(2, wait_ms=500) is None
    bench.pass_time(bench.settings.check_quorum_timeout_ms)
    errors = [fetch_answer(action.response).error for action in bench.of(Reply)]
    assert errors == [ErrorCode.not_leader_or_follower]


def test_a_replica_has_one_waiting_fetch() -> None:
    bench = leading()
    bench.fetch_from(2)
    end, epoch = bench.log.end_offset, bench.core.epoch
    bench.step(RequestReceived("old", fetch(voter(3).key, epoch, end, epoch, wait_ms=500)))
    bench.step(RequestReceived("new", fetch(voter(3).key, epoch, end, epoch, wait_ms=500)))
    assert [action.token for action in bench.of(Reply)] == ["old"]
    assert [parked.token for parked in bench.leader_role.parked] == ["new"]


def test_every_commit_is_reported_once() -> None:
    bench = leading()
    bench.fetch_from(2)
    assert bench.of(AdvanceHighWatermark) == [AdvanceHighWatermark(bench.log.end_offset)]
    bench.fetch_from(3)
    assert bench.of(AdvanceHighWatermark) == []


def test_the_quorum_is_described_by_its_leader_only() -> None:
    bench = leading()
    bench.fetch_from(2)
    bench.fetch_from(9)
    described = bench.ask(DescribeRequest())
    assert isinstance(described, DescribeResponse)
    assert (described.error, described.high_watermark) == (OK, bench.log.end_offset)
    assert [replica.key.node_id for replica in described.voters] == [1, 2, 3]
    assert [replica.end_offset for replica in described.voters] == [bench.log.end_offset] * 2 + [-1]
    assert [replica.key for replica in described.observers] == [voter(9).key]
    bench.now_ms += 400_000
    bench.core._state.role.check_quorum_deadline_ms = bench.now_ms + 1  # type: ignore[union-attr]
    described = bench.ask(DescribeRequest())
    assert isinstance(described, DescribeResponse)
    assert described.observers == ()
    refused = CoreBench().ask(DescribeRequest())
    assert isinstance(refused, DescribeResponse)
    assert refused.error is ErrorCode.not_leader_or_follower
