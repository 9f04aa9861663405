"""Reads what a fetch asks for: plans slices, takes what is in memory at once and the rest in a thread.

The loop never waits for a disk: a slice whose bytes are not in the page cache is read by the pool, and the
response is packed when it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import OperationError, StorageError
from crabka.ids import ZERO_UUID
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import FetchPartitionResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.fetch_sessions import SessionTarget
    from crabka.broker.partition import Partition
    from crabka.log.reader import ReadSlice

READ_COMMITTED = 1
UNKNOWN = -1


class TargetRead(NamedTuple):
    """What came of one target: a finished row, or a row that still waits for the bytes of `cold`."""

    target: SessionTarget
    partition: Partition | None
    row: FetchPartitionResult
    cold: ReadSlice | None


class FetchRead(NamedTuple):
    """What came of a whole request. Planned bytes count for min_bytes, whether they are read yet or not."""

    reads: list[TargetRead]
    planned_bytes: int
    has_error: bool

    @property
    def cold_slices(self) -> list[ReadSlice]:
        """Return the slices that need the disk."""
        return [read.cold for read in self.reads if read.cold is not None]


def read_targets(
    context: BrokerContext, targets: Sequence[SessionTarget], *, max_bytes: int, isolation_level: int
) -> FetchRead:
    """Plan and read all targets in order until `max_bytes` are planned; the first batch may be larger."""
    reads: list[TargetRead] = []
    planned_bytes = 0
    has_error = False
    for target in targets:
        try:
            read, length = _read_target(
                context, target, budget=max_bytes - planned_bytes, isolation=isolation_level, first=planned_bytes == 0
            )
        except OperationError as error:
            read, length = _failed(target, error.error_code), 0
        except StorageError as error:
            context.logs.on_dir_failure(error.log_dir, error)
            read, length = _failed(target, ErrorCode.kafka_storage_error), 0
        # A client that must truncate hears so at once, as of an error.
        has_error = has_error or read.row.error_code != 0 or read.row.diverging_epoch is not None
        reads.append(read)
        planned_bytes += length
    return FetchRead(reads, planned_bytes, has_error)


def with_cold_bytes(
    context: BrokerContext, reads: Sequence[TargetRead], chunks: Sequence[bytes | OSError]
) -> list[TargetRead]:
    """Return the reads with the bytes of their cold slices filled in, in order; a failed disk goes offline."""
    remaining = iter(chunks)
    return [read if read.cold is None else _with_chunk(context, read, next(remaining)) for read in reads]


def _with_chunk(context: BrokerContext, read: TargetRead, chunk: bytes | OSError) -> TargetRead:
    if not isinstance(chunk, OSError):
        return read._replace(row=read.row._replace(records=chunk), cold=None)
    if read.partition is not None:
        context.logs.on_dir_failure(read.partition.log.log_dir, chunk)
    return _failed(read.target, ErrorCode.kafka_storage_error)


def read_slices(slices: Sequence[ReadSlice]) -> list[bytes | OSError]:
    """Read slices from disk, each for itself; runs in a thread."""
    return [_read_slice(each) for each in slices]


def _read_slice(piece: ReadSlice) -> bytes | OSError:
    try:
        return piece.read()
    except OSError as error:
        return error


def _read_target(
    context: BrokerContext, target: SessionTarget, *, budget: int, isolation: int, first: bool
) -> tuple[TargetRead, int]:
    partition = _find(context, target)
    partition.require_leader(target.leader_epoch)
    log = partition.log
    if target.last_fetched_epoch >= 0:
        diverging = _divergence(partition, target)
        if diverging is not None:
            return TargetRead(target, partition, diverging, None), 0
    stable = log.last_stable_offset
    high_watermark = log.high_watermark
    upper = stable if isolation == READ_COMMITTED else high_watermark
    piece = log.read(
        target.fetch_offset,
        max_bytes=max(0, min(target.max_bytes, budget)),
        upper_offset=upper,
        # Progress is possible even with a batch larger than every limit (KIP-74), but only for the first data.
        min_one_batch=first and budget > 0,
    )
    try:
        records = piece.take_nowait() if piece.length else b""
    except OSError as error:
        raise StorageError(log.log_dir, f"cannot read {log.topic_partition}: {error}") from error
    aborted: Sequence[tuple[int, int]] | None = None
    if isolation == READ_COMMITTED:
        aborted = [each[:2] for each in log.aborted_transactions(target.fetch_offset, upper)] if piece.length else ()
    start = log.log_start_offset
    if records is None:
        row = FetchPartitionResult(target.index, 0, high_watermark, stable, start, b"", aborted)
        return TargetRead(target, partition, row, piece), piece.length
    row = FetchPartitionResult(target.index, 0, high_watermark, stable, start, records, aborted)
    return TargetRead(target, partition, row, None), len(records)


def _find(context: BrokerContext, target: SessionTarget) -> Partition:
    if target.topic_id == ZERO_UUID:
        return context.partitions.by_name(target.topic, target.index)
    return context.partitions.by_id(target.topic_id, target.index)


def _divergence(partition: Partition, target: SessionTarget) -> FetchPartitionResult | None:
    # KIP-595/KIP-320: the client's last record is not on our branch of history, so it has to truncate.
    epoch, end_offset = partition.log.end_offset_for_epoch(target.last_fetched_epoch)
    if epoch == UNKNOWN or end_offset == UNKNOWN:
        raise OperationError(ErrorCode.offset_out_of_range)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return FetchPartitionResult(target.index, 0, UNKNOWN, diverging_epoch=(epoch, end_offset))
    return None


def _failed(target: SessionTarget, error_code: ErrorCode) -> TargetRead:
    return TargetRead(target, None, FetchPartitionResult(target.index, int(error_code), UNKNOWN), None)
