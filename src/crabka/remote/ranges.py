"""Which bytes of a segment a fetch means; the same for every storage."""

from __future__ import annotations

from crabka.remote.errors import InvalidRangeError
from crabka.remote.segments import RemoteLogSegmentMetadata


def positions(metadata: RemoteLogSegmentMetadata, start: int, end: int | None) -> range:
    """Return the positions from `start` to `end`, both included, that exist in a segment.

    Raises InvalidRangeError for a start behind the end of the segment and for an end before the start.
    """
    size = metadata.segment_size_bytes
    if not 0 <= start <= size:
        raise InvalidRangeError(f"position {start} is not in {metadata.segment_id}, which has {size} bytes")
    if end is None:
        return range(start, size)
    if end < start:
        raise InvalidRangeError(f"{metadata.segment_id} cannot be read from {start} back to {end}")
    return range(start, min(end + 1, size))
