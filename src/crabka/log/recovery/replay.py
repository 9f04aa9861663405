"""Producer state from the batches of a log: what snapshots do not cover is replayed, header by header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.records.control import EndTransactionMarker, parse_control_record
from crabka.records.header import CONTROL_FLAG, BatchHeader
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from crabka.log.producers.producer_state import CompletedTransaction, ProducerStateManager
    from crabka.log.producers.snapshots import ProducerSnapshots
    from crabka.log.segment.segment import Segment
    from crabka.log.segment.segments import Segments
    from crabka.ports import Buffer


def end_marker(batch: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
    """Return the transaction marker in a control batch, None for KRaft's control records and emptied batches."""
    if header.records_count == 0 or header.producer_id < 0:
        return None
    content = parse_control_record(decode_records(batch, header)[0])
    return content if isinstance(content, EndTransactionMarker) else None


def replay_batch(state: ProducerStateManager, batch: Buffer, header: BatchHeader) -> CompletedTransaction | None:
    """Take a batch of an existing log into the producer state; return the transaction that it ends."""
    if not header.attributes & CONTROL_FLAG:
        state.apply(header, header.base_offset)
        return None
    if header.records_count == 0:
        state.apply_emptied_marker(header)
        return None
    marker = end_marker(batch, header)
    return None if marker is None else state.apply_marker(header, header.base_offset, marker)


def replay_segment(state: ProducerStateManager, segment: Segment, *, start: int, end: int) -> None:
    """Apply the batches of a segment in [start, end) to the producer state."""
    for position, header in segment.headers(segment.load_indexes().offsets.floor_position(start)):
        if header.base_offset >= end:
            return
        if header.last_offset >= start and header.producer_id >= 0:
            batch = segment.read_batch(position, header) if header.attributes & CONTROL_FLAG else b""
            replay_batch(state, batch, header)


def rebuild_producer_state(
    state: ProducerStateManager, snapshots: ProducerSnapshots, segments: Segments, *, start: int, end: int
) -> None:
    """Load the newest snapshot not above `end` and replay the batches between it and `end`.

    Snapshots above `end` or below the log start are removed.
    """
    snapshots.remove_outside(start, end)
    loaded = snapshots.read_latest(start, end)
    snapshot_offset = loaded[0] if loaded else start
    state.load(loaded[1] if loaded else [], snapshot_offset)
    for segment in segments.from_offset(snapshot_offset):
        if snapshot_offset < end:
            replay_segment(state, segment, start=snapshot_offset, end=end)
    state.map_end_offset = end
