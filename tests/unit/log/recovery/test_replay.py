from __future__ import annotations

from crabka.config.topic import TopicConfig
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import ProducerSnapshots
from crabka.log.recovery.replay import end_marker, rebuild_producer_state, replay_batch
from crabka.log.segment.segment import Segment
from crabka.log.segment.segments import Segments
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.filtering import emptied_batch
from crabka.records.header import parse_header
from tests.support.storage.small import LOG_PATH, NOW_MS, ProducerFields, make_batch, make_context

ABORT = EndTransactionMarker(committed=False, coordinator_epoch=2)


def marker_batch(offset: int) -> bytes:
    return build_end_transaction_batch(ABORT, producer_id=1, producer_epoch=1, timestamp=NOW_MS, base_offset=offset)


def test_markers_are_recognised() -> None:
    batch = marker_batch(5)
    assert end_marker(batch, parse_header(batch)) == ABORT
    empty = build_batch([], producer_id=1, producer_epoch=0, control=True)
    assert end_marker(empty, parse_header(empty)) is None


def test_replay_ends_transactions() -> None:
    state = ProducerStateManager()
    data = make_batch(2, producer=ProducerFields(1), transactional=True, base_offset=3)
    assert replay_batch(state, data, parse_header(data)) is None
    assert state.first_undecided_offset == 3
    completed = replay_batch(state, marker_batch(5), parse_header(marker_batch(5)))
    assert completed is not None
    assert (completed.first_offset, completed.last_offset, completed.aborted) == (3, 5, True)


def test_only_what_the_snapshot_lacks_is_replayed() -> None:
    context = make_context()
    context.fs.makedirs(LOG_PATH)
    segment = Segment(context, LOG_PATH, 0, 0)
    segment.activate(segment.empty_indexes(), TopicConfig(), NOW_MS)
    for offset in range(10):
        batch = make_batch(producer=ProducerFields(offset % 5, 0, offset // 5), base_offset=offset)
        segment.append([batch], len(batch), offset, NOW_MS)
    segments = Segments([segment])
    snapshots = ProducerSnapshots(context.fs, LOG_PATH, [])
    snapshots.write(8, [])
    snapshots.write(20, [])
    state = ProducerStateManager()
    rebuild_producer_state(state, snapshots, segments, start=0, end=10)
    assert sorted(state.entries) == [3, 4]
    assert (state.map_end_offset, snapshots.offsets) == (10, [8])
    rebuild_producer_state(state, snapshots, segments, start=0, end=7)
    assert {entry.producer_id: entry.last_sequence for entry in state.active_producers()} == {
        0: 1,
        1: 1,
        2: 0,
        3: 0,
        4: 0,
    }
    assert snapshots.offsets == []


def test_an_emptied_marker_has_the_epoch_and_ends_a_transaction() -> None:
    state = ProducerStateManager()
    data = make_batch(1, producer=ProducerFields(7), transactional=True)
    replay_batch(state, data, parse_header(data))
    assert state.first_undecided_offset == 0
    marker = build_end_transaction_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0), producer_id=7, producer_epoch=1, timestamp=5
    )
    emptied = emptied_batch(parse_header(marker))
    assert replay_batch(state, emptied, parse_header(emptied)) is None
    assert state.first_undecided_offset is None
    assert (state.entries[7].producer_epoch, state.entries[7].batches) == (1, [])
    replay_batch(unknown := ProducerStateManager(), emptied, parse_header(emptied))
    assert unknown.entries[7].producer_epoch == 1
