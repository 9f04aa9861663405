"""What the next request asks for, and what an answer does; how that looks to a leader is in test_leader_fetcher."""

from __future__ import annotations

import pytest

from crabka.broker.replication.fetch_list import FetchList, known_error
from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_state import FetchPhase, LeaderRangeKnown
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot.follower_fetch import FetchedBody, FetchedPartition, FetchedTopic
from tests.support.async_tests import run_with
from tests.support.nodes.follower import TOPIC, FollowerWorld, follow
from tests.support.quorum.images import topic_id_of
from tests.support.storage.small import append, make_batch

TOPIC_ID = topic_id_of(TOPIC).bytes


def listed(world: FollowerWorld, count: int = 1) -> tuple[FetchList, list[FollowedPartition], list[None]]:
    """Return partitions in a list of their own, and how often it said that there is work."""
    world.place(*[{"leader": -1}] * count)
    work: list[None] = []
    fetch_list = FetchList(world.fetchers._tools, lambda: work.append(None))
    followed = [FollowedPartition(world.partition(index), backoff_ms=100) for index in range(count)]
    for each in followed:
        fetch_list.add(each)
    return fetch_list, followed, work


def answer(*rows: FetchedPartition) -> FetchedBody:
    return FetchedBody(0, 1, [FetchedTopic(TOPIC_ID, list(rows))])


def row(index: int = 0, *, error: ErrorCode = ErrorCode.none, records: bytes = b"", end: int = 0) -> FetchedPartition:
    return FetchedPartition(index, error.value, end, 0, memoryview(records), None)


def asked(fetch_list: FetchList) -> int:
    """Return how many partitions the next request names."""
    request = fetch_list.session.next_request()
    fetch_list.session.sent()
    fetch_list.session.answered(0, 1)
    return sum(map(len, request.topics.values()))


@run_with(follow)
async def test_only_what_something_happened_to_is_asked_for_again(world: FollowerWorld, /) -> None:
    fetch_list, followed, work = listed(world, 3)
    assert (fetch_list.choose(), asked(fetch_list), len(work)) == (None, 3, 1)
    assert (fetch_list.choose(), asked(fetch_list)) == (None, 0)
    fetch_list.take(answer(row(1, records=make_batch(2), end=2)))
    assert (fetch_list.choose(), asked(fetch_list), len(work)) == (None, 1, 2)
    assert [each.lag for each in followed] == [None, 0, None]


@run_with(follow)
async def test_a_delayed_partition_comes_back_when_its_time_is_over(world: FollowerWorld, /) -> None:
    fetch_list, _, _ = listed(world, 2)
    fetch_list.choose()
    asked(fetch_list)
    fetch_list.take(answer(row(1, error=ErrorCode.kafka_storage_error)))
    assert (fetch_list.choose(), len(fetch_list.session)) == (100, 1)
    await world.settle(40)
    assert (fetch_list.choose(), len(fetch_list.session)) == (60, 1)
    await world.settle(60)
    assert (fetch_list.choose(), len(fetch_list.session)) == (None, 2)


@run_with(follow)
async def test_an_answer_for_who_is_gone_does_nothing(world: FollowerWorld, /) -> None:
    fetch_list, (followed,), _ = listed(world)
    fetch_list.choose()
    fetch_list.remove(followed)
    again = FollowedPartition(world.partition(), backoff_ms=100)
    fetch_list.add(again)
    # Of the request before, in which the new one was not asked for.
    fetch_list.take(answer(row(records=make_batch(2), end=2), row(7)))
    assert world.partition().log.log_end_offset == 0
    assert (followed.is_current, again.is_current, len(fetch_list)) == (False, True, 1)
    fetch_list.clear()
    assert (again.is_current, len(fetch_list), len(fetch_list.session)) == (False, 0, 0)


@run_with(follow)
async def test_a_partition_whose_disk_failed_is_dropped(world: FollowerWorld, /) -> None:
    fetch_list, (followed,), _ = listed(world)
    fetch_list.choose()
    world.logs.on_dir_failure("/d1", OSError("gone"))
    fetch_list.take(answer(row(records=make_batch(2), end=2)))
    assert (followed.is_current, len(fetch_list)) == (False, 0)


@run_with(follow)
async def test_a_partition_out_of_range_waits_for_the_range(world: FollowerWorld, /) -> None:
    fetch_list, (followed,), _ = listed(world)
    append(followed.partition.log, make_batch(2))
    fetch_list.choose()
    fetch_list.take(answer(row(error=ErrorCode.offset_out_of_range)))
    assert fetch_list.out_of_range == [followed]
    assert (fetch_list.choose(), len(fetch_list.session)) == (None, 0)
    fetch_list.pass_ranges({followed: LeaderRangeKnown(0, 9)})
    assert (fetch_list.choose(), len(fetch_list.session), fetch_list.out_of_range) == (None, 1, [])
    fetch_list.take(answer(row(error=ErrorCode.offset_out_of_range)))
    fetch_list.give_up_asking()
    assert followed.fetching.phase is FetchPhase.DELAYED


@run_with(follow)
async def test_a_partition_whose_records_are_in_the_tier_waits_for_where_the_leaders_own_begin(
    world: FollowerWorld, /
) -> None:
    fetch_list, (followed,), _ = listed(world)
    fetch_list.choose()
    fetch_list.take(answer(row(error=ErrorCode.offset_moved_to_tiered_storage)))
    assert (fetch_list.moved_to_tier, fetch_list.out_of_range) == ([followed], [])
    assert (fetch_list.choose(), len(fetch_list.session)) == (None, 0)
    fetch_list.pass_tiers({})
    assert followed.fetching.phase is FetchPhase.DELAYED


@pytest.mark.parametrize("change", ["append", "append_later", "cut", "restart"])
def test_a_change_of_a_log_that_fails_unexpectedly_is_tried_again(
    change: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The partition would wait for ever: neither fetched nor given up."""

    def broken(*_arguments: object, **_named: object) -> None:
        raise LookupError("where is it?")

    async def broken_later(*_arguments: object) -> None:
        broken()

    async def test(world: FollowerWorld) -> None:
        fetch_list, (followed,), _ = listed(world)
        append(followed.partition.log, make_batch(2))
        fetch_list.choose()
        changes = world.fetchers._tools.changes
        monkeypatch.setattr(changes, change, broken if change == "append" else broken_later)
        if change.startswith("append"):
            monkeypatch.setattr(changes, "must_wait", lambda _partition: change == "append_later")
            fetch_list.take(answer(row(records=make_batch(2), end=4)))
        else:
            fetch_list.take(answer(row(error=ErrorCode.offset_out_of_range)))
            leader = LeaderRangeKnown(0, 1) if change == "cut" else LeaderRangeKnown(9, 10)
            fetch_list.pass_ranges({followed: leader})
        await world.settle(1)
        assert followed.fetching.phase is FetchPhase.DELAYED
        await world.settle(100)
        assert (fetch_list.choose(), len(fetch_list.session)) == (None, 1)

    follow(test)
    assert "where is it?" in caplog.text


def test_errors_of_newer_brokers_are_errors() -> None:
    assert known_error(0) is ErrorCode.none
    assert known_error(76) is ErrorCode.unsupported_compression_type
    assert known_error(12345) is ErrorCode.unknown_server_error
