"""Properties of the log: what goes in comes out, in every form of index, read and restart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.config.topic import TopicConfig
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import TimeIndex
from crabka.formats.transaction_index import AbortedTransaction, decode_aborted, encode_aborted
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.producers.producer_state import AppendOrigin, BatchMark, ProducerEntry, ProducerStateManager
from crabka.log.producers.snapshots import decode_snapshot, encode_snapshot
from crabka.log.recovery.recovery import OpenOptions
from crabka.records.header import MAX_SEQUENCE, iter_headers, parse_header
from crabka.records.record import decode_records
from tests.support.storage.small import (
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
    read_batches,
    read_headers,
)

INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 2)
BATCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 150), st.integers(0, 1000)), min_size=1, max_size=25)
CONFIGS = st.builds(
    TopicConfig,
    internal_segment_bytes=st.integers(900, 3000),
    index_interval_bytes=st.integers(0, 1000),
    segment_ms=st.integers(1, 2000),
)


def filled(batches: list[tuple[int, int, int]], config: TopicConfig) -> PartitionLog:
    log = open_test_log(make_context(), config)
    for count, value_bytes, time in batches:
        append(log, make_batch(count, value_bytes=value_bytes, timestamp=NOW_MS + time))
    return log


@given(BATCHES, CONFIGS, st.data())
def test_a_read_returns_the_batches_from_the_offset_on(
    batches: list[tuple[int, int, int]], config: TopicConfig, data: st.DataObject
) -> None:
    log = filled(batches, config)
    everything = [header.base_offset for header in read_headers(log)]
    start = data.draw(st.integers(0, log.log_end_offset - 1))
    upper = data.draw(st.sampled_from([*everything[1:], log.log_end_offset]))
    max_bytes = data.draw(st.integers(0, 2000))
    found = log.read(start, max_bytes=max_bytes, upper_offset=upper).read()
    bases = [header.base_offset for _, header in iter_headers(found)]
    wanted = [base for base in everything if base < upper]
    if start >= upper:
        assert bases == []
        return
    first = max(index for index, base in enumerate(everything) if base <= start)
    assert bases == wanted[first : first + len(bases)]
    assert bases
    assert len(found) <= max_bytes or len(bases) == 1


@given(BATCHES, CONFIGS, st.booleans())
def test_a_log_is_the_same_after_a_restart(
    batches: list[tuple[int, int, int]], config: TopicConfig, clean: bool
) -> None:
    context = make_context()
    log = open_test_log(context, config)
    for count, value_bytes, time in batches:
        append(log, make_batch(count, value_bytes=value_bytes, timestamp=NOW_MS + time))
    before = read_batches(log)
    log.close(clean=clean)
    again = open_test_log(make_context(context.fs), config, OpenOptions(clean=clean, now_ms=NOW_MS))
    assert read_batches(again) == before
    assert again.segment_base_offsets == log.segment_base_offsets
    assert again.reads.max_timestamp_offset() == log.reads.max_timestamp_offset()


@given(BATCHES, CONFIGS, st.integers(-5, 1010))
def test_a_lookup_by_time_finds_what_a_full_scan_finds(
    batches: list[tuple[int, int, int]], config: TopicConfig, time: int
) -> None:
    log = filled(batches, config)
    records = [record for _, batch in read_batches(log) for record in decode_records(batch)]
    wanted = next((record.offset for record in records if record.timestamp >= NOW_MS + time), None)
    found = log.reads.offset_for_timestamp(NOW_MS + time)
    assert (found.offset if found else None) == wanted


@given(BATCHES, CONFIGS, st.data())
def test_truncation_leaves_the_batches_below(
    batches: list[tuple[int, int, int]], config: TopicConfig, data: st.DataObject
) -> None:
    log = filled(batches, config)
    before = read_batches(log)
    offset = data.draw(st.integers(0, log.log_end_offset))
    log.truncation.truncate_to(offset, now_ms=NOW_MS)
    assert read_batches(log) == [(header, batch) for header, batch in before if header.last_offset < offset]


@given(st.sets(INT32, max_size=50), st.integers(0, 2**40), st.data())
def test_offset_indexes_round_trip_and_find_the_floor(offsets: set[int], base: int, data: st.DataObject) -> None:
    index = OffsetIndex(base)
    pairs = [(base + relative, 100 * (position + 1)) for position, relative in enumerate(sorted(offsets))]
    for offset, position in pairs:
        index.append(offset, position)
    assert OffsetIndex.decode(base, index.encode()).entries() == pairs
    target = base + data.draw(INT32)
    assert index.floor_position(target) == max((p for o, p in pairs if o <= target), default=0)


@given(st.lists(st.tuples(INT64, INT32), max_size=30))
def test_time_indexes_round_trip(entries: list[tuple[int, int]]) -> None:
    index = TimeIndex(0)
    for timestamp, (_, offset) in zip(sorted(t for t, _ in entries), sorted(entries, key=lambda e: e[1]), strict=True):
        index.maybe_append(timestamp + 1, offset)
    assert TimeIndex.decode(0, index.encode()).entries() == index.entries()


@given(
    st.lists(st.builds(AbortedTransaction, INT64, INT64, INT64, INT64), max_size=20, unique_by=lambda e: e.last_offset)
)
def test_transaction_indexes_round_trip(entries: list[AbortedTransaction]) -> None:
    ordered = sorted(entries, key=lambda entry: entry.last_offset)
    assert decode_aborted(encode_aborted(ordered)) == ordered


@given(st.lists(st.tuples(INT64, st.integers(0, 32767), INT32, INT64, INT32, INT64), max_size=20))
def test_producer_snapshots_round_trip(rows: list[tuple[int, int, int, int, int, int]]) -> None:
    entries = []
    for producer_id, epoch, sequence, offset, delta, timestamp in rows:
        entry = ProducerEntry(producer_id, epoch)
        entry.batches.append(BatchMark(sequence, offset, delta, timestamp))
        entry.last_timestamp = timestamp
        entries.append(entry)
    assert encode_snapshot(decode_snapshot(encode_snapshot(entries))) == encode_snapshot(entries)


@given(st.integers(0, MAX_SEQUENCE), st.lists(st.integers(1, 2000), min_size=1, max_size=12))
def test_a_retry_of_a_recent_batch_is_known_also_where_sequences_wrap(first: int, counts: list[int]) -> None:
    state = ProducerStateManager()
    template = parse_header(make_batch(producer=ProducerFields(1)))
    headers, sequence, offset = [], first, 0
    for count in counts:
        header = template._replace(base_sequence=sequence, last_offset_delta=count - 1)
        assert state.check(header, AppendOrigin.CLIENT) is None
        state.apply(header, offset)
        headers.append((header, offset))
        sequence, offset = (sequence + count) & MAX_SEQUENCE, offset + count
    for header, at in headers[-5:]:
        duplicate = state.check(header, AppendOrigin.CLIENT)
        assert duplicate is not None
        assert duplicate.first_offset == at


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 200)), max_size=30), st.integers(0, 200))
def test_leader_epochs_and_offsets_always_rise(assignments: list[tuple[int, int]], cut: int) -> None:
    cache = LeaderEpochCache()
    for epoch, start in assignments:
        cache.assign(epoch, start)
    cache.truncate_from_start(cut // 2)
    cache.truncate_from_end(cut)
    epochs, starts = zip(*cache.entries, strict=True) if cache.entries else ((), ())
    assert list(epochs) == sorted(set(epochs))
    assert list(starts) == sorted(set(starts))
    assert all(start < cut for start in starts)
