from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.errors import InvariantError
from crabka.metadata.delta import MetadataChanges
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, encode_record
from crabka.quorum.raft import applier as raft_applier
from crabka.quorum.raft.applier import MetadataApplier
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, write_snapshot
from crabka.quorum.storage import MetadataStorage
from crabka.records.builder import build_batch
from crabka.records.record import Record
from tests.support.async_tests import real_time, run_with
from tests.support.quorum.node import DIRECTORY, QUIET, VOTER, formatted_disk, new_topic, topic_config


class Bench:
    """An applier over a log in memory, with all it published."""

    def __init__(self) -> None:
        self.fs = formatted_disk()
        self.storage = MetadataStorage.open(self.fs, DIRECTORY, QUIET, now_ms=10)
        self.log = RaftLog(self.storage)
        self.applier = MetadataApplier(self.storage)
        self.published: list[tuple[MetadataChanges, MetadataImage]] = []
        self.unsubscribe = self.applier.subscribe(lambda delta, image: self.published.append((delta, image)))

    def batch(self, records: list[Any], epoch: int = 1) -> bytes:
        base = self.log.end_offset
        rows = [Record(base + index, 10, None, encode_record(record)) for index, record in enumerate(records)]
        return build_batch(rows, base_offset=base, leader_epoch=epoch)

    def append(self, records: list[Any], epoch: int = 1) -> int:
        return self.log.append_batches([self.batch(records, epoch)], 10).end_offset

    def lead(self, records: list[Any]) -> int:
        batch = self.batch(records)
        self.applier.replay_ahead([batch])
        return self.log.append_batches([batch], 10).end_offset

    @property
    def topics(self) -> list[str]:
        return sorted(self.applier.image.topics.by_name)


def test_a_follower_applies_up_to_the_high_watermark_only() -> None:
    bench = Bench()
    first = bench.append(new_topic("a", 1))
    second = bench.append(new_topic("b", 2))
    bench.applier.advance(first)
    assert (bench.topics, bench.applier.applied_to) == (["a"], first)
    bench.applier.advance(first)
    bench.applier.advance(second)
    assert [image.offset for _, image in bench.published] == [first - 1, second - 1]
    assert bench.topics == ["a", "b"]
    bench.unsubscribe()
    bench.applier.advance(bench.append(new_topic("c", 3)))
    assert len(bench.published) == 2


def test_a_long_log_is_applied_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(raft_applier, "SLICE_BYTES", 3 * len(bench.batch(new_topic("t0", 0))))
    ends = [bench.append(new_topic(f"t{number}", number)) for number in range(8)]
    bench.applier.advance(ends[6])
    assert (bench.applier.applied_to, bench.applier.is_behind) == (ends[2], True)
    bench.applier.go_on()
    assert (bench.applier.applied_to, bench.applier.is_behind) == (ends[5], True)
    bench.applier.go_on()
    assert (bench.applier.applied_to, bench.applier.is_behind) == (ends[6], False)
    bench.applier.go_on()
    assert [len(image.topics.by_name) for _, image in bench.published] == [3, 6, 7]


def test_a_leader_shows_its_appends_when_they_are_committed() -> None:
    bench = Bench()
    first = bench.lead(new_topic("a", 1))
    second = bench.lead(new_topic("b", 2))
    assert bench.topics == []
    bench.applier.advance(first)
    assert bench.topics == ["a"]
    bench.applier.advance(second)
    assert bench.topics == ["a", "b"]
    assert bench.applier.applied_to == second


def test_what_is_not_committed_is_forgotten_with_leadership() -> None:
    bench = Bench()
    first = bench.lead(new_topic("a", 1))
    bench.lead(new_topic("b", 2))
    bench.applier.advance(first)
    bench.applier.forget_ahead()
    bench.log.truncate(first, 10)
    bench.applier.advance(bench.append(new_topic("c", 3), epoch=2))
    assert bench.topics == ["a", "c"]
    assert bench.applier.image.epoch == 2


def test_an_open_transaction_outlives_the_end_of_leadership() -> None:
    bench = Bench()
    committed = bench.lead([BeginTransactionRecord(name="x"), *new_topic("a", 1)])
    bench.lead([AbortTransactionRecord(reason="never committed")])
    bench.applier.advance(committed)
    bench.applier.forget_ahead()
    assert (bench.topics, bench.applier.applied_to, bench.applier.in_transaction) == ([], committed, True)
    bench.log.truncate(committed, 10)
    bench.applier.advance(bench.append([EndTransactionRecord()], epoch=2))
    assert bench.topics == ["a"]


def test_a_contradiction_never_becomes_an_image() -> None:
    bench = Bench()
    with pytest.raises(InvariantError):
        bench.lead([EndTransactionRecord()])


def test_a_subscriber_that_breaks_is_a_broken_invariant() -> None:
    bench = Bench()

    def fail(_delta: MetadataChanges, _image: MetadataImage) -> None:
        raise ValueError

    bench.applier.subscribe(fail)
    with pytest.raises(InvariantError):
        bench.applier.advance(bench.append(new_topic("a", 1)))


def install_snapshot(bench: Bench) -> None:
    """Let another replica's snapshot, with one topic and up to offset 50, take the place of the log."""
    other = Bench()
    other.applier.advance(other.append([*new_topic("b", 2), topic_config("b", "retention.ms", "5")]))
    path = f"{bench.storage.directory}/{SnapshotId(50, 4).file_name}"
    write_snapshot(
        bench.fs, path, SnapshotContent(other.applier.image.to_records(), 10, 1, (VOTER,)), epoch=4, now_ms=10
    )
    reopened = MetadataStorage.open(bench.fs, DIRECTORY, QUIET, now_ms=10)
    bench.storage.loaded = reopened.loaded
    bench.applier.adopt_snapshot()


def test_an_installed_snapshot_is_published_as_a_difference() -> None:
    bench = Bench()
    bench.applier.advance(bench.append(new_topic("a", 1)))
    install_snapshot(bench)
    delta, image = bench.published[-1]
    assert len(delta.topics_created) == len(delta.topics_deleted) == 1
    assert (bench.topics, image.offset, image.epoch, bench.applier.applied_to) == (["b"], 49, 4, 50)


@run_with(real_time)
async def test_a_snapshot_is_settled_when_the_work_of_subscribers_is_done() -> None:
    bench = Bench()
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bench.applier.subscribe(lambda _delta, _image: work)
    before = bench.applier.settled_to
    install_snapshot(bench)
    assert (bench.applier.applied_to, bench.applier.settled_to) == (50, before)
    work.set_result(None)
    await asyncio.sleep(0)
    assert bench.applier.settled_to == 50


@run_with(real_time)
async def test_those_who_wait_are_answered_when_the_work_of_subscribers_is_done() -> None:
    bench = Bench()
    works: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    waiting = list(works)
    settled: list[int] = []
    bench.applier.subscribe(lambda _delta, _image: waiting.pop(0) if waiting else None)
    bench.applier.on_settled = lambda _error: settled.append(bench.applier.settled_to)
    before = bench.applier.settled_to
    first = bench.append(new_topic("one", 1))
    bench.applier.advance(first)
    second = bench.append(new_topic("two", 2))
    bench.applier.advance(second)
    assert bench.applier.applied_to == second
    assert bench.applier.settled_to == before
    works[1].set_result(None)
    await asyncio.sleep(0)
    assert bench.applier.settled_to == before
    works[0].set_result(None)
    await asyncio.sleep(0)
    assert settled == [before, second]


@run_with(real_time)
async def test_work_of_a_subscriber_that_fails_is_a_broken_invariant() -> None:
    bench = Bench()
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    errors: list[BaseException | None] = []
    bench.applier.subscribe(lambda _delta, _image: work)
    bench.applier.on_settled = errors.append
    bench.applier.advance(bench.append(new_topic("one", 1)))
    work.set_exception(ValueError("no"))
    await asyncio.sleep(0)
    assert isinstance(errors[0], InvariantError)
