"""A tier with segments of one partition, ready for a reader."""

from __future__ import annotations

from crabka.records.header import iter_headers
from crabka.remote.segments import RemoteLogSegmentMetadata
from tests.support.storage.small import append, make_batch
from tests.support.tiers.remote_reading import TierWorld


def filled(world: TierWorld, batches: int = 40) -> bytes:
    """Fill the log, give it to the tier, and return all that left the disk."""
    for _ in range(batches):
        append(world.log, make_batch(3, value_bytes=100))
    everything = b""
    offset = 0
    world.tier()
    end = world.log.tiering.highest_remote_offset + 1
    while offset < end:
        piece = world.log.read(offset, max_bytes=1 << 20).read()
        everything += piece
        offset = [header for _, header in iter_headers(piece)][-1].next_offset
    world.drop_local()
    assert world.log.local_log_start_offset == end
    assert len(list(world.rlmm.list_remote_log_segments(world.topic_id_partition))) > 5
    return everything


def segments_of(world: TierWorld) -> list[RemoteLogSegmentMetadata]:
    return list(world.rlmm.list_remote_log_segments(world.topic_id_partition))
