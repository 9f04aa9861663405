"""What an append may do to a client's batch before it is written, and its result.

Most topics take batches as they come. Three settings make the broker decode or rewrite them: log append time,
a codec of the topic's own, and compaction, which needs keys. `prepare_batch` costs a decompression then, so a
caller may run it in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import OperationError
from crabka.log.partition.decompression import check_record_count, decompressed_limit
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import BatchHeader, parse_header
from crabka.records.rewrite import InvalidRecord, recompress, validate_records, with_log_append_time

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.log.segment.caches import Handle
    from crabka.log.segment.segment import Segment
    from crabka.ports import Buffer
    from crabka.records.control import EndTransactionMarker

CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PRODUCER_CODEC: Final = "producer"
LOG_APPEND_TIME: Final = "LogAppendTime"
NO_APPEND_TIME: Final = -1


class AppendResult(NamedTuple):
    """Where a batch is in the log. For a duplicate: where its first copy is."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    # The epoch that the appending leader was in: in another one the log may have been cut below the batch.
    leader_epoch: int
    duplicate: bool = False


class PreparedBatch(NamedTuple):
    """A batch as it will be written; `log_append_time_ms` is -1 under create time."""

    batch: Buffer
    header: BatchHeader
    log_append_time_ms: int


class PendingAppend(NamedTuple):
    """An append whose write is still to come. The log takes no other until it is finished or abandoned."""

    segment: Segment
    handle: Handle
    buffers: list[Buffer]
    position: int
    size: int
    header: BatchHeader
    leader_epoch: int
    result: AppendResult
    marker: EndTransactionMarker | None

    @property
    def next_offset(self) -> int:
        """Where the log will end."""
        return self.result.last_offset + 1

    def write(self) -> None:
        """Write the batch into the page cache. May run in any thread; raises OSError."""
        # The handle is the append's own, so the file stays open when its log is closed or deleted meanwhile.
        self.handle.file.pwritev(self.buffers, self.position)


class InvalidRecordsError(OperationError):
    """Single records of a batch are refused; Produce reports them one by one."""

    def __init__(self, record_errors: list[InvalidRecord]) -> None:
        super().__init__(
            ErrorCode.invalid_record, "One or more records have been rejected due to " + record_errors[0].message
        )
        self.record_errors = record_errors


def needs_preparation(config: TopicConfig) -> bool:
    """Return whether the topic's settings make the broker decode or change batches."""
    return (
        config.message_timestamp_type == LOG_APPEND_TIME
        or config.compression_type != PRODUCER_CODEC
        or "compact" in config.cleanup_policy
    )


def prepared_as_built(batch: Buffer, header: BatchHeader, config: TopicConfig) -> PreparedBatch | None:
    """Return a batch that the node built, with keys, unchanged; None if the topic's settings still change it."""
    codec = CODECS.get(config.compression_type, header.codec)
    if codec != header.codec or config.message_timestamp_type == LOG_APPEND_TIME:
        return None
    return PreparedBatch(batch, header, NO_APPEND_TIME)


def prepare_batch(
    batch: Buffer, header: BatchHeader, config: TopicConfig, now_ms: int, *, validate: bool = False
) -> PreparedBatch:
    """Return the batch as the topic's settings require it; `validate` checks its records in any case.

    Raises InvalidRecordsError for records that a compacted topic cannot take, OperationError when the batch
    cannot be decoded or its records are larger or more than `log.partition.decompression` allows.
    """
    keys_required = "compact" in config.cleanup_policy
    codec = CODECS.get(config.compression_type, header.codec)
    limit = decompressed_limit(config)
    if validate or keys_required or codec != header.codec:
        check_record_count(header, config)
        invalid = validate_records(batch, keys_required=keys_required, max_decompressed_bytes=limit)
        if invalid:
            raise InvalidRecordsError(invalid)
    if codec != header.codec:
        batch = recompress(batch, codec, _level(config, codec), limit)
    append_time_ms = NO_APPEND_TIME
    if config.message_timestamp_type == LOG_APPEND_TIME:
        batch = with_log_append_time(batch, now_ms)
        append_time_ms = now_ms
    return PreparedBatch(batch, parse_header(batch), append_time_ms)


def _level(config: TopicConfig, codec: int) -> int | None:
    levels = {1: config.compression_gzip_level, 3: config.compression_lz4_level, 4: config.compression_zstd_level}
    return levels.get(codec)
