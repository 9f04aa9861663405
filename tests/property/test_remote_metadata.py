"""The cache of remote segments answers as a list of all of them does, and as Kafka's map does where that answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from crabka.remote.errors import InvalidSegmentTransitionError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.lifecycle import SEGMENT_TRANSITIONS
from crabka.remote.metadata_cache import RemoteLogMetadataCache
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState
from crabka.testing.remote_samples import SAMPLE_PARTITION, sample_segment, sample_update
from tests.support.tier_topic.model import FINISHED, KafkaEpochMap, SegmentList, offsets_of

DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
EPOCHS = range(3)
OFFSETS = range(-1, 34)


class Step(NamedTuple):
    """Something that is tried with a segment; it may be refused."""

    segment: RemoteLogSegmentMetadata
    state: RemoteLogSegmentState


@st.composite
def segments(draw: st.DrawFn, number: int) -> RemoteLogSegmentMetadata:
    first = draw(st.integers(0, 24))
    last = first + draw(st.integers(0, 8))
    epochs = sorted(draw(st.sets(st.sampled_from(EPOCHS), min_size=1)))
    # No epoch is empty; where there is no room for another one, it is left out.
    starts = sorted({first, *(draw(st.integers(first, last)) for _ in epochs[1:])})
    return sample_segment(
        number,
        (first, last),
        dict(zip(epochs, starts, strict=False)),
        size_bytes=draw(st.integers(0, 9)),
        with_txn_index=draw(st.booleans()),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Steps of some segments, mingled; mostly a copy that is finished, deletions later."""
    known = [draw(segments(number)) for number in range(draw(st.integers(1, 8)))]
    states = st.sampled_from([FINISHED, FINISHED, FINISHED, *RemoteLogSegmentState])
    return draw(st.lists(st.builds(Step, st.sampled_from(known), states), min_size=1, max_size=30))


@st.composite
def copies_in_order(draw: st.DrawFn) -> list[Step]:
    """What leaders do one after the other: each copy reaches at least as far as all before it. Some are deleted."""
    known = [draw(segments(number)) for number in range(draw(st.integers(2, 8)))]
    history: list[Step] = []
    for segment in sorted(known, key=lambda segment: segment.end_offset):
        history.append(Step(segment, FINISHED))
        if draw(st.integers(0, 3)) == 0:
            history.append(Step(draw(st.sampled_from(known)), DELETING))
    return history


def apply(cache: RemoteLogMetadataCache, history: list[Step]) -> Iterator[RemoteLogSegmentMetadata]:
    """Take the steps that are legal; return each segment as it is afterwards."""
    known: dict[int, RemoteLogSegmentMetadata] = {}
    for segment, state in history:
        number = segment.segment_id.id.int
        if number not in known:
            cache.add(segment)
            known[number] = segment
            yield segment
        update = sample_update(segment, state)
        legal = state in SEGMENT_TRANSITIONS[known[number].state]
        try:
            assert cache.update(update) is legal
        except InvalidSegmentTransitionError:
            assert not legal
        if legal:
            known[number] = known[number].with_update(update)
            yield known[number]


def by_id(segments: list[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    return sorted(segments, key=lambda segment: segment.segment_id.id.int)


def require_same(cache: RemoteLogMetadataCache, model: SegmentList) -> None:
    for epoch in EPOCHS:
        for offset in OFFSETS:
            found = cache.find(epoch, offset)
            assert found == model.find(epoch, offset)
            assert (found is None) == (not model.covering(epoch, offset))
            assert cache.find_with_txn_index(epoch, offset) == model.find_with_txn_index(epoch, offset)
        assert by_id(list(cache.segments_of_epoch(epoch))) == by_id(model.of_epoch(epoch))
        assert cache.size_bytes(epoch) == sum(segment.segment_size_bytes for segment in model.readable(epoch))
    assert by_id(list(cache.segments())) == by_id(model.segments)
    assert dict(cache.highest_offsets) == model.highest


@given(st.one_of(histories(), copies_in_order()))
def test_the_cache_answers_as_a_list_of_all_segments(history: list[Step]) -> None:
    cache, model = RemoteLogMetadataCache(), SegmentList()
    for segment in apply(cache, history):
        model.put(segment)
    require_same(cache, model)


@given(st.one_of(histories(), copies_in_order()))
def test_steps_of_a_replay_do_what_updates_do(history: list[Step]) -> None:
    by_update, by_step = RemoteLogMetadataCache(), RemoteLogMetadataCache()
    for segment in apply(by_update, history):
        update = sample_update(segment, segment.state)
        key = segment.segment_id.id.int
        step = (key, update.state, update.broker_id, update.event_timestamp_ms)
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            assert not by_step.take_step(*step)
            by_step.add(segment)
        else:
            assert by_step.take_step(*step)
        # Neither a retry nor a step back.
        assert not by_step.take_step(*step)
    assert list(by_step.segments()) == list(by_update.segments())
    assert by_step.highest_offsets == by_update.highest_offsets
    for epoch in EPOCHS:
        assert [by_step.find(epoch, offset) for offset in OFFSETS] == [
            by_update.find(epoch, offset) for offset in OFFSETS
        ]
        assert by_step.size_bytes(epoch) == by_update.size_bytes(epoch)


@given(histories(), st.integers(0, 39))
def test_a_cache_that_is_loaded_goes_on_as_the_one_it_came_from(history: list[Step], cut: int) -> None:
    rlmm, model = InmemoryRemoteLogMetadataManager(), SegmentList()
    cache = RemoteLogMetadataCache()
    for count, segment in enumerate(apply(cache, history)):
        model.put(segment)
        if count == cut:
            copy = RemoteLogMetadataCache()
            copy.load(list(cache.segments()), dict(cache.highest_offsets))
            require_same(copy, model)
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            rlmm.add_remote_log_segment_metadata(segment)
        else:
            rlmm.update_remote_log_segment_metadata(sample_update(segment, segment.state))
            rlmm.load(rlmm.dump())
    for epoch in EPOCHS:
        for offset in OFFSETS:
            assert rlmm.remote_log_segment_metadata(SAMPLE_PARTITION, epoch, offset) == model.find(epoch, offset)


@given(st.one_of(histories(), copies_in_order()))
def test_kafka_knows_no_offset_that_is_not_found_and_agrees_while_leaders_copy_in_order(history: list[Step]) -> None:
    cache = RemoteLogMetadataCache()
    maps = {epoch: KafkaEpochMap() for epoch in EPOCHS}
    revealed: set[int] = set()
    for segment in apply(cache, history):
        for epoch in EPOCHS:
            offsets = offsets_of(segment, epoch)
            if offsets is None:
                continue
            if segment.state is FINISHED:
                maps[epoch].finish(segment, *offsets)
            elif segment.state is DELETING:
                maps[epoch].delete(segment, offsets[0])
                hid = {other.segment_id for other in maps[epoch].replaced_others}
                if segment.segment_id in hid:
                    revealed.add(epoch)
    for epoch, kafka in maps.items():
        in_order = not kafka.fell_short and epoch not in revealed
        event(f"leaders copied in order: {in_order}")
        for offset in OFFSETS:
            found, expected = cache.find(epoch, offset), kafka.find(offset, epoch)
            assert expected is None or found is not None
            if in_order:
                assert found == expected
        assert cache.highest_offset(epoch) == kafka.highest
