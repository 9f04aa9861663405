"""What comes from the tier is what was written, whatever happened to its objects, or it is an error."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

import pytest

from crabka.broker.tiering.read.healing.segment_survey import DamagedSegmentError
from crabka.broker.tiering.read.healing.surveys import LOST_TTL_MS, RETRY_MS
from crabka.broker.tiering.read.index_files import file_name
from crabka.broker.tiering.stats import REMOTE_CORRECTED_RANGES, REMOTE_DAMAGED_RANGES, REMOTE_INDEX_FAULTS
from crabka.config.topic import TopicConfig
from crabka.formats.file_names import REMOTE_INDEX_CACHE
from crabka.ports import FileRange, FileSystem
from crabka.records.header import iter_headers
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.remote.storage_manager import RemoteStorageManager
from tests.support.faults.rotting import flip
from tests.support.faults.tier_rot import flip_object
from tests.support.storage.small import append, make_batch
from tests.support.tiers.remote_reading import TierWorld, directory_tier, memory_tier

BACKENDS = {"memory": memory_tier, "directory": directory_tier}
ONE_SEGMENT = TopicConfig(
    internal_segment_bytes=1600, index_interval_bytes=200, remote_storage_enable=True, local_retention_ms=0
)


@pytest.fixture(params=[*BACKENDS])
def backend(request: pytest.FixtureRequest) -> Callable[[FileSystem], RemoteStorageManager]:
    return BACKENDS[request.param]


def filled(world: TierWorld, batches: int = 14) -> bytes:
    """Fill the log, in two leader epochs, and give it to the tier; return all that left the disk."""
    rng = random.Random(3)
    for number in range(batches):
        append(world.log, make_batch(3, value_bytes=rng.randint(20, 90)), leader_epoch=2 * (number // 5))
    world.tier()
    stored = b""
    for segment in segments_of(world):
        stored += bytes(world.storage.fetch_log_segment(segment, 0))
    world.drop_local()
    return stored


def segments_of(world: TierWorld) -> list[RemoteLogSegmentMetadata]:
    return list(world.rlmm.list_remote_log_segments(world.topic_id_partition))


def read_all(world: TierWorld, start: int = 0, max_bytes: int = 700) -> bytes:
    """Read as a consumer does, one fetch after the other, up to the local log."""
    found, offset = b"", start
    while offset < world.log.local_log_start_offset:
        piece = world.fetch_bytes(offset, max_bytes=max_bytes)
        assert piece
        found += piece
        offset = [header for _, header in iter_headers(piece)][-1].next_offset
    return found


def forget(world: TierWorld) -> None:
    """Let nothing be known of the tier, as in another node."""
    for segment in segments_of(world):
        world.tools.forget(segment.segment_id.id)


def advance(world: TierWorld, ms: int) -> None:
    world.loop.run_until_complete(asyncio.sleep(ms / 1000))


def test_any_one_wrong_byte_of_a_segment_is_corrected(
    backend: Callable[[FileSystem], RemoteStorageManager],
) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world:
        stored = filled(world)
        tier = (world.storage, world.fs)
        segment = segments_of(world)[1]
        starts = [position for position, _ in iter_headers(bytes(world.storage.fetch_log_segment(segment, 0)))]
        headers = {start + place for start in starts for place in range(61)}
        for position in sorted(headers | set(range(0, segment.segment_size_bytes, 7))):
            flip_object(tier, segment, position, 1 << position % 8)
            assert read_all(world) == stored, position
            flip_object(tier, segment, position, 1 << position % 8)
            forget(world)


def test_a_read_that_begins_anywhere_is_right(backend: Callable[[FileSystem], RemoteStorageManager]) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world:
        stored = filled(world)
        segment = segments_of(world)[1]
        places = {header.base_offset: position for position, header in iter_headers(stored)}
        for position in range(0, segment.segment_size_bytes, 61):
            flip_object((world.storage, world.fs), segment, position)
            for offset in range(0, world.log.local_log_start_offset, 4):
                first = max(base for base in places if base <= offset)
                assert read_all(world, offset, 1 << 20) == stored[places[first] :], (position, offset)
            flip_object((world.storage, world.fs), segment, position)
            forget(world)


def test_a_correction_is_reported_once(
    backend: Callable[[FileSystem], RemoteStorageManager], caplog: pytest.LogCaptureFixture
) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world, caplog.at_level(logging.WARNING):
        stored = filled(world)
        segment = segments_of(world)[0]
        flip_object((world.storage, world.fs), segment, 100, 8)
        for _ in range(3):
            assert read_all(world) == stored
            forget(world)
        (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert "orders-0: offsets 0 to 2 are damaged in the remote tier" in line
        assert "byte 100 from" in line
        assert str(segment.segment_id.id) in line
        counted = [world.stats.counter(name, "orders") for name in (REMOTE_DAMAGED_RANGES, REMOTE_CORRECTED_RANGES)]
        assert counted == [1, 1]


def test_what_cannot_be_corrected_ends_the_read_before_it(
    backend: Callable[[FileSystem], RemoteStorageManager], caplog: pytest.LogCaptureFixture
) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world:
        stored = filled(world)
        segment = segments_of(world)[1]
        content = bytes(world.storage.fetch_log_segment(segment, 0))
        position, bad = list(iter_headers(content))[2]
        for place in (70, 80, 90):
            flip_object((world.storage, world.fs), segment, position + place, 0x11)
        places = {header.base_offset: place for place, header in iter_headers(stored)}
        start, end = places[bad.base_offset], places[bad.next_offset]
        assert world.fetch_bytes(0) == stored[:start]
        for _ in range(3):
            for offset in range(bad.base_offset, bad.next_offset):
                with pytest.raises(DamagedSegmentError):
                    world.fetch(offset)
        assert read_all(world, bad.next_offset) == stored[end:]
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 1
        assert f"offsets {bad.base_offset} to {bad.last_offset} are damaged" in errors[0]
        assert "crabka tier fsck" in errors[0]
        assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def test_an_object_that_is_restored_is_served_again(backend: Callable[[FileSystem], RemoteStorageManager]) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world:
        stored = filled(world)
        places = [(segments_of(world)[0], place) for place in (70, 80, 90)]
        for segment, place in places:
            flip_object((world.storage, world.fs), segment, place, 0x11)
        with pytest.raises(DamagedSegmentError):
            world.fetch(0)
        for segment, place in places:
            flip_object((world.storage, world.fs), segment, place, 0x11)
        advance(world, LOST_TTL_MS)
        world.chunks.forget(segments_of(world)[0].segment_id.id)
        assert read_all(world) == stored


def test_damage_that_comes_later_is_found_when_the_last_check_is_old() -> None:
    with TierWorld(ONE_SEGMENT, storage=directory_tier) as world:
        stored = filled(world)
        assert read_all(world) == stored
        flip_object((world.storage, world.fs), segments_of(world)[0], 100)
        assert read_all(world) != stored, "bytes that were checked a moment ago are not checked again"
        advance(world, world.verified_ttl_ms)
        assert read_all(world) == stored


def test_damage_beside_what_a_survey_found_is_found_as_well(
    backend: Callable[[FileSystem], RemoteStorageManager],
) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world:
        stored = filled(world)
        segment = segments_of(world)[0]
        last = list(iter_headers(bytes(world.storage.fetch_log_segment(segment, 0))))[-1][0]
        world.verified_ttl_ms = 0
        flip_object((world.storage, world.fs), segment, 100)
        world.fetch(0, max_bytes=1)
        flip_object((world.storage, world.fs), segment, last + 70)
        world.chunks.forget(segment.segment_id.id)
        with pytest.raises(RemoteBackendError, match="has changed"):
            world.fetch(segment.end_offset, max_bytes=1)
        advance(world, RETRY_MS)
        assert read_all(world) == stored


def test_large_parts_are_still_ranges_of_files_around_a_corrected_batch() -> None:
    config = TopicConfig(internal_segment_bytes=800_000, remote_storage_enable=True, local_retention_ms=0)
    with TierWorld(config, storage=directory_tier) as world:
        for _ in range(60):
            append(world.log, make_batch(1, value_bytes=20_000))
        world.tier()
        segment = segments_of(world)[0]
        stored = bytes(world.storage.fetch_log_segment(segment, 0))
        world.drop_local()
        flip_object((world.storage, world.fs), segment, len(stored) // 2)
        records = world.fetch(0, upper_offset=segment.end_offset + 1).records
        assert not isinstance(records, FileRange)
        parts = records.parts  # type: ignore[union-attr]
        assert [isinstance(part, FileRange) for part in parts] == [True, False, True]
        assert b"".join(part.read() if isinstance(part, FileRange) else part for part in parts) == stored


@pytest.mark.parametrize("kind", [IndexType.OFFSET, IndexType.TIMESTAMP])
def test_any_wrong_byte_of_an_index_leads_to_no_wrong_data(
    backend: Callable[[FileSystem], RemoteStorageManager], kind: IndexType
) -> None:
    with TierWorld(ONE_SEGMENT, storage=backend) as world:
        stored = filled(world)
        segment = segments_of(world)[1]
        offsets = range(0, world.log.local_log_start_offset, 5)
        for position in range(len(world.storage.fetch_index(segment, kind))):
            flip_object((world.storage, world.fs), segment, position, 1 << position % 8, kind=kind)
            assert read_all(world) == stored, position
            for offset in offsets:
                found = world.fetch_bytes(offset, max_bytes=1)
                (header,) = [header for _, header in iter_headers(found)]
                assert header.base_offset <= offset <= header.last_offset
            flip_object((world.storage, world.fs), segment, position, 1 << position % 8, kind=kind)
            forget(world)


def test_a_wrong_entry_of_an_index_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with TierWorld(ONE_SEGMENT, storage=directory_tier) as world:
        stored = filled(world)
        segment = segments_of(world)[1]
        # Still rising, and in the middle of a batch.
        flip_object((world.storage, world.fs), segment, 7, 1, kind=IndexType.OFFSET)
        for _ in range(3):
            assert read_all(world) == stored
            forget(world)
        (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert ".index in the remote tier is damaged: entry 0" in line
        assert world.stats.counter(REMOTE_INDEX_FAULTS) == 1


def test_a_damaged_copy_of_an_index_is_fetched_anew_without_a_survey() -> None:
    with TierWorld(ONE_SEGMENT, storage=directory_tier) as world:
        stored = filled(world)
        read_all(world)
        segment = segments_of(world)[1]
        forget_memory(world)
        flip(world.fs, f"/data/{REMOTE_INDEX_CACHE}/{file_name(segment, IndexType.OFFSET)}", 7)
        assert read_all(world) == stored
        assert world.tools.surveys.of(segment) is None
        assert world.stats.counter(REMOTE_INDEX_FAULTS) == 0


def forget_memory(world: TierWorld) -> None:
    """Keep what is on disk, as after a restart."""
    for key in list(world.indexes._in_memory):
        world.indexes._drop_from_memory(key)
    world.indexes._files._checksums.clear()
    for segment in segments_of(world):
        world.verified.forget(segment.segment_id.id)
