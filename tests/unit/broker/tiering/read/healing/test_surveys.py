"""Surveys are shared, kept for a while and made again only after a while."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.tiering.read.deadline import Deadline, RemoteWaitOverError
from crabka.broker.tiering.read.healing.surveys import CORRECTED_TTL_MS, LOST_TTL_MS, RETRY_MS
from crabka.formats.offset_index import OffsetIndex
from crabka.remote.errors import SegmentNotFoundError
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from tests.support.faults.tier_rot import flip_object
from tests.support.storage.small import append, make_batch
from tests.support.tiers.remote_reading import HeldThreads, TierWorld

LIMIT = 1 << 20
INDEX = OffsetIndex(0)


def one_segment(world: TierWorld, *places: int) -> RemoteLogSegmentMetadata:
    for _ in range(4):
        append(world.log, make_batch(2, value_bytes=400))
    segment = world.tier()[0]
    for place in places:
        flip_object((world.storage, world.fs), segment, place, 3)
    return segment


@pytest.mark.parametrize(("places", "ttl_ms"), [((70,), CORRECTED_TTL_MS), ((70, 75, 80), LOST_TTL_MS)])
def test_a_survey_is_good_for_a_while(places: tuple[int, ...], ttl_ms: int) -> None:
    with TierWorld() as world:
        segment, surveys = one_segment(world, *places), world.tools.surveys

        async def main() -> None:
            assert surveys.of(segment) is None
            made = await surveys.make(segment, INDEX, LIMIT, Deadline(100))
            assert surveys.of(segment) is made
            assert surveys.is_fresh(made)
            await asyncio.sleep(RETRY_MS / 1000)
            assert not surveys.is_fresh(made)
            await asyncio.sleep((ttl_ms - RETRY_MS - 1) / 1000)
            assert surveys.of(segment) is made
            await asyncio.sleep(0.001)
            assert surveys.of(segment) is None
            await surveys.make(segment, INDEX, LIMIT, Deadline(100))
            surveys.forget(segment.segment_id.id)
            assert surveys.of(segment) is None

        world.run(main())


def test_a_survey_that_takes_long_serves_the_next_reader() -> None:
    with TierWorld(threads=lambda _loop: HeldThreads()) as world:
        segment, surveys = one_segment(world, 70), world.tools.surveys
        threads = world.threads
        assert isinstance(threads, HeldThreads)

        async def main() -> None:
            for _ in range(3):
                with pytest.raises(RemoteWaitOverError):
                    await surveys.make(segment, INDEX, LIMIT, Deadline(0))
            assert threads.release() == 1
            await asyncio.sleep(0)
            assert surveys.of(segment) is not None

        world.run(main())


def test_a_survey_that_fails_is_made_again() -> None:
    with TierWorld() as world:
        segment, surveys = one_segment(world), world.tools.surveys
        world.storage.delete_log_segment_data(segment)

        async def main() -> None:
            for _ in range(2):
                with pytest.raises(SegmentNotFoundError):
                    await surveys.make(segment, INDEX, LIMIT, Deadline(100))
            assert surveys.of(segment) is None

        world.run(main())


def test_a_doubt_is_of_one_index() -> None:
    with TierWorld() as world:
        segment, surveys = one_segment(world), world.tools.surveys
        other = OffsetIndex(0)
        other.append(5, 100)
        assert not surveys.is_doubted(segment, INDEX)
        assert surveys.note_doubt(segment, INDEX)
        assert surveys.is_doubted(segment, OffsetIndex(0))
        assert not surveys.is_doubted(segment, other)
        assert not surveys.note_doubt(segment, other)
        assert surveys.is_doubted(segment, other)
        surveys.dispel_doubt(segment)
        assert not surveys.is_doubted(segment, other)


def test_an_index_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with TierWorld() as world:
        segment = one_segment(world)
        for _ in range(2):
            world.tools.surveys.report_index(segment, IndexType.TIMESTAMP, "it lies")
        assert len(caplog.records) == 1
