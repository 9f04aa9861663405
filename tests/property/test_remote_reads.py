"""Reads from the tier are byte for byte what the log would have answered, wherever it was cut and whatever is asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.config.topic import TopicConfig
from crabka.records.header import BatchHeader
from tests.support.storage.small import NOW_MS, append, make_batch, read_batches
from tests.support.tiers.remote_reading import TierWorld, directory_tier, memory_tier

Batches = list[tuple[BatchHeader, bytes]]

BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100), st.integers(0, 2)), min_size=4, max_size=40)


def fill(world: TierWorld, batches: list[tuple[int, int, int]], data: st.DataObject) -> Batches:
    """Write a log of several epochs, give its older part to the tier, and return all that was ever in it."""
    epoch = 0
    for count, value_bytes, step in batches:
        epoch += step == 2
        append(world.log, make_batch(count, value_bytes=value_bytes, timestamp=NOW_MS), leader_epoch=epoch)
        if step == 1 and data.draw(st.booleans(), label="roll"):
            world.log.roll(NOW_MS)
    everything = read_batches(world.log)
    world.tier(limit=data.draw(st.integers(1, 40), label="segments"))
    world.drop_local()
    return everything


@given(BATCHES, st.data())
def test_a_fetch_from_the_tier_returns_what_the_log_held(
    batches: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    config = TopicConfig(
        internal_segment_bytes=data.draw(st.integers(700, 3000), label="segment bytes"),
        index_interval_bytes=data.draw(st.integers(0, 800), label="index interval"),
        remote_storage_enable=True,
        local_retention_ms=0,
    )
    storage = data.draw(st.sampled_from([memory_tier, directory_tier]), label="storage")
    chunk_bytes = data.draw(st.integers(100, 4000), label="chunk bytes")
    with TierWorld(config, storage=storage, chunk_bytes=chunk_bytes, cache_bytes=8000) as world:
        everything = fill(world, batches, data)
        remote_end = world.log.local_log_start_offset
        for _ in range(4 if remote_end else 0):
            offset = data.draw(st.integers(0, remote_end - 1), label="offset")
            upper = data.draw(st.one_of(st.just(world.log.high_watermark), st.integers(offset + 1, remote_end)))
            max_bytes = data.draw(st.one_of(st.just(1 << 20), st.integers(0, 3000)), label="max bytes")
            min_one = data.draw(st.booleans(), label="at least one batch")
            found = world.fetch_bytes(offset, upper_offset=upper, max_bytes=max_bytes, min_one_batch=min_one)
            assert found == expected(everything, offset, (upper, remote_end), max_bytes, min_one=min_one)


def expected(everything: Batches, offset: int, ends: tuple[int, int], max_bytes: int, *, min_one: bool) -> bytes:
    """Return whole batches from the one that holds the offset on, up to the limits."""
    upper, remote_end = ends
    answer = b""
    for header, batch in everything:
        if header.last_offset < offset or header.base_offset >= remote_end:
            continue
        is_free = min_one and not answer
        if header.base_offset >= upper or (len(answer) + len(batch) > max_bytes and not is_free):
            break
        answer += batch
    return answer
