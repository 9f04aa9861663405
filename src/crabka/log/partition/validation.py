"""Checks of a client's batch that need only its header and checksum (Kafka's LogValidator and UnifiedLog).

Every produced batch comes through here, so the common case is a handful of integer comparisons and one CRC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    parse_header,
)

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.ports import Buffer

CREATE_TIME: Final = "CreateTime"
MAX_CODEC: Final = 4
_CODEC_AND_UNUSED_MASK: Final = 0x07


def check_client_batch(records: Buffer, config: TopicConfig, now_ms: int) -> BatchHeader:
    """Return the header of the one batch that a client sent, or refuse it.

    The records are not walked: their count is what the header says, and `prepare_batch` compares it where it must.

    Raises OperationError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    size = len(records)
    if size < HEADER_SIZE:
        raise _corrupt(f"Record batch of {size} bytes is smaller than its header")
    header = parse_header(records)
    if header.magic != MAGIC_V2:
        raise _invalid(f"Record batch has magic {header.magic}, only {MAGIC_V2} is accepted")
    if header.batch_length + LOG_OVERHEAD != size:
        raise _wrong_length(header, size)
    if size > config.max_message_bytes:
        raise OperationError(
            ErrorCode.message_too_large,
            f"The record batch size in the append is {size} bytes which exceeds the maximum configured value of "
            f"{config.max_message_bytes}.",
        )
    if header.crc != crc32c(memoryview(records)[ATTRIBUTES_POSITION:]):
        raise _corrupt(f"Record is corrupt (stored crc = {header.crc})")
    _check_shape(header)
    if config.message_timestamp_type == CREATE_TIME:
        _check_timestamp(header, config, now_ms)
    return header


def _check_shape(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise _invalid(f"The baseOffset of the record batch in the append should be 0, but it is {header.base_offset}")
    count = header.records_count
    if count <= 0:
        raise _invalid(f"Invalid reported count for record batch: {count}")
    if header.last_offset_delta + 1 != count:
        raise _invalid(f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}")
    attributes = header.attributes
    if attributes & CONTROL_FLAG:
        raise _invalid("Clients are not allowed to write control records")
    if attributes & _CODEC_AND_UNUSED_MASK > MAX_CODEC:
        raise OperationError(
            ErrorCode.unsupported_compression_type,
            f"Unknown compression type id: {attributes & _CODEC_AND_UNUSED_MASK}",
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
        )


def _check_timestamp(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    timestamp = header.max_timestamp
    if header.attributes & LOG_APPEND_TIME_FLAG:
        raise OperationError(
            ErrorCode.invalid_timestamp,
            "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.",
        )
    if timestamp == NO_TIMESTAMP:
        return
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    if not earliest <= timestamp <= latest:
        raise OperationError(
            ErrorCode.invalid_timestamp,
            f"Timestamp {timestamp} of message with offset {header.last_offset_delta} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]",
        )


def _wrong_length(header: BatchHeader, size: int) -> OperationError:
    if HEADER_SIZE <= header.batch_length + LOG_OVERHEAD < size:
        return _invalid("Produce requests must contain exactly one record batch per partition")
    return _corrupt(f"Record batch claims {header.batch_length + LOG_OVERHEAD} bytes, {size} were sent")


def _corrupt(message: str) -> OperationError:
    return OperationError(ErrorCode.corrupt_message, message)


def _invalid(message: str) -> OperationError:
    return OperationError(ErrorCode.invalid_record, message)
