"""A follower's side of Fetch, v13 to v18: packs the request, reads the response without touching the records.

Topics go by id (v13, KIP-516). The follower names itself in the first field up to v14, in the tagged field
`replica_state` with its broker epoch from v15 on (KIP-903). Records are views into the frame: to keep them is to keep
the frame.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import WireError
from crabka.protocol.hot.primitives import pack_i32, uvarint
from crabka.protocol.wire import read_uvarint, skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIN_FOLLOWER_FETCH_VERSION: Final = 13

_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
_DIVERGING_EPOCH_TAG: Final = 0

# partition, leader epoch, fetch offset, last fetched epoch, log start, max bytes, no tags
_pack_partition = struct.Struct(">iiqiqiB").pack
# max wait, min bytes, max bytes, isolation level, session id, session epoch
_pack_head = struct.Struct(">iiibii").pack
# one tagged field: number, size, replica id, broker epoch, no tags of its own
_pack_replica_state = struct.Struct(">BBBiqB").pack
_unpack_head = struct.Struct(">ihi").unpack_from  # throttle time, error, session
# partition, error, high watermark, last stable offset, log start, first byte of the aborted transactions
_unpack_row = struct.Struct(">ihqqqB").unpack_from
_unpack_epoch_end = struct.Struct(">iq").unpack_from
_ROW_BYTES: Final = 31
_ABORTED_BYTES: Final = 16
_REPLICA_BYTES: Final = 4
_MIN_ROW_BYTES: Final = _ROW_BYTES + _REPLICA_BYTES + 2

_new = tuple.__new__


class FollowerFetchRequest(NamedTuple):
    """What goes into a request beside the partitions."""

    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int


class FetchedPartition(NamedTuple):
    """What a leader answered for one partition."""

    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    # Epoch and end offset, if the follower's log has parted from the leader's.
    diverging_epoch: tuple[int, int] | None


class FetchedTopic(NamedTuple):
    """The partitions of one topic."""

    # As on the wire, which is cheaper to look up than a UUID.
    topic_id: bytes
    partitions: list[FetchedPartition]


class FetchedBody(NamedTuple):
    """A Fetch response."""

    error_code: int
    session_id: int
    topics: list[FetchedTopic]


def pack_fetch_partition(
    index: int,
    *,
    leader_epoch: int,
    fetch_offset: int,
    last_fetched_epoch: int,
    log_start_offset: int,
    max_bytes: int,
) -> bytes:
    """Return one partition of a request. Equal bytes say the same, so an incremental session can go by them."""
    return _pack_partition(index, leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes, 0)


def pack_follower_fetch(
    version: int,
    request: FollowerFetchRequest,
    topics: Mapping[bytes, Sequence[bytes]],
    forgotten: Mapping[bytes, Sequence[int]],
) -> bytes:
    """Return the body of a request; by topic id, `topics` holds packed partitions, `forgotten` partition indexes."""
    with_state = version >= _FIRST_VERSION_WITH_REPLICA_STATE
    pieces = [] if with_state else [pack_i32(request.replica_id)]
    pieces.append(
        _pack_head(
            request.max_wait_ms, request.min_bytes, request.max_bytes, 0, request.session_id, request.session_epoch
        )
    )
    pieces.append(uvarint(len(topics) + 1))
    for topic_id, partitions in topics.items():
        pieces += (topic_id, uvarint(len(partitions) + 1), *partitions, b"\0")
    pieces.append(uvarint(len(forgotten) + 1))
    for topic_id, indexes in forgotten.items():
        pieces += (topic_id, uvarint(len(indexes) + 1), *map(pack_i32, indexes), b"\0")
    pieces.append(b"\1")  # no rack
    if with_state:
        pieces.append(_pack_replica_state(1, 1, 13, request.replica_id, request.broker_epoch, 0))
    else:
        pieces.append(b"\0")
    return b"".join(pieces)


def read_fetched(frame: memoryview, offset: int) -> FetchedBody:
    """Decode the body of a response, v13 or newer, that starts at `offset`. Raises WireError."""
    try:
        _throttle_ms, error_code, session_id = _unpack_head(frame, offset)
        count, position = read_uvarint(frame, offset + 10)
        _check_count(count - 1, frame, position, 18)
        topics = []
        for _ in range(count - 1):
            topic_id = frame[position : position + 16].tobytes()
            partitions, position = _read_partitions(frame, position + 16)
            position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
            topics.append(FetchedTopic(topic_id, partitions))
        # What is tagged at the end, the endpoints of other leaders, is for clients.
        skip_tagged_fields(frame, position)
    except (IndexError, struct.error) as error:
        raise WireError("FetchResponse ends in the middle of a field") from error
    return FetchedBody(error_code, session_id, topics)


def _read_partitions(frame: memoryview, position: int) -> tuple[list[FetchedPartition], int]:
    count, position = read_uvarint(frame, position)
    _check_count(count - 1, frame, position, _MIN_ROW_BYTES)
    partitions = []
    for _ in range(count - 1):
        index, error_code, high_watermark, _stable, log_start, aborted = _unpack_row(frame, position)
        # A follower receives no aborted transactions: null or an empty array.
        position = position + _ROW_BYTES if aborted < 2 else _skip_aborted(frame, position + _ROW_BYTES - 1)
        length, position = read_uvarint(frame, position + _REPLICA_BYTES)
        end = position + max(length - 1, 0)
        records = frame[position:end]
        diverging = None
        if frame[end] == 0:
            position = end + 1
        else:
            diverging, position = _read_tags(frame, end)
        partitions.append(_new(FetchedPartition, (index, error_code, high_watermark, log_start, records, diverging)))
    return partitions, position


def _skip_aborted(frame: memoryview, position: int) -> int:
    count, position = read_uvarint(frame, position)
    _check_count(count - 1, frame, position, _ABORTED_BYTES + 1)
    for _ in range(count - 1):
        position = skip_tagged_fields(frame, position + _ABORTED_BYTES)
    return position


def _read_tags(frame: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    diverging: tuple[int, int] | None = None
    count, position = read_uvarint(frame, position)
    _check_count(count, frame, position, 2)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == _DIVERGING_EPOCH_TAG:
            diverging = _unpack_epoch_end(frame, position)
        position += size
    return diverging, position


def _check_count(count: int, frame: memoryview, position: int, element_bytes: int) -> None:
    if count < 0 or count * element_bytes > len(frame) - position:
        raise WireError(f"malformed FetchResponse: an array claims {count} elements")
