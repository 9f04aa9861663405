from __future__ import annotations

import struct

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import OperationError
from crabka.log.partition.validation import check_client_batch
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.header import sealed
from crabka.records.record import Record
from tests.support.storage.small import NOW_MS, ProducerFields, make_batch


def refused(batch: bytes, config: TopicConfig | None = None) -> ErrorCode:
    with pytest.raises(OperationError) as caught:
        check_client_batch(memoryview(batch), config or TopicConfig(), NOW_MS)
    return caught.value.error_code


def patched(position: int, value: bytes) -> bytes:
    """Return a batch of three records with other bytes at `position` and a checksum that fits."""
    batch = bytearray(make_batch(3, producer=ProducerFields(1)))
    batch[position : position + len(value)] = value
    return sealed(batch)


def test_a_good_batch_gives_its_header() -> None:
    header = check_client_batch(memoryview(make_batch(3)), TopicConfig(), NOW_MS)
    assert header.records_count == 3


@pytest.mark.parametrize("size", [0, 11, 60])
def test_less_than_a_header_is_corrupt(size: int) -> None:
    assert refused(make_batch()[:size]) is ErrorCode.corrupt_message


def test_a_cut_batch_is_corrupt() -> None:
    assert refused(make_batch()[:-1]) is ErrorCode.corrupt_message


def test_two_batches_are_invalid() -> None:
    assert refused(make_batch() + make_batch()) is ErrorCode.invalid_record


def test_old_magic_is_invalid() -> None:
    assert refused(patched(16, b"\x01")) is ErrorCode.invalid_record


def test_a_wrong_checksum_is_corrupt() -> None:
    batch = bytearray(make_batch())
    batch[-1] ^= 1
    assert refused(bytes(batch)) is ErrorCode.corrupt_message


def test_a_batch_over_the_limit_is_too_large() -> None:
    batch = make_batch(value_bytes=1000)
    assert refused(batch, TopicConfig(max_message_bytes=len(batch) - 1)) is ErrorCode.message_too_large
    check_client_batch(batch, TopicConfig(max_message_bytes=len(batch)), NOW_MS)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, struct.pack(">q", 5)),
        (57, struct.pack(">i", 2)),
        (57, struct.pack(">i", 0)),
        (23, struct.pack(">i", -1)),
        (21, struct.pack(">h", 0x20)),
        (53, struct.pack(">i", -1)),
    ],
    ids=["base offset", "count", "no records", "offset delta", "control", "no sequence"],
)
def test_headers_that_no_client_may_send_are_invalid(position: int, value: bytes) -> None:
    assert refused(patched(position, value)) is ErrorCode.invalid_record


def test_an_unknown_codec_is_unsupported() -> None:
    assert refused(patched(21, struct.pack(">h", 5))) is ErrorCode.unsupported_compression_type


@pytest.mark.parametrize("timestamp", [NOW_MS - 1001, NOW_MS + 501])
def test_timestamps_far_from_now_are_invalid(timestamp: int) -> None:
    config = TopicConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    assert refused(make_batch(timestamp=timestamp), config) is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("timestamp", [-1, NOW_MS - 1000, NOW_MS + 500])
def test_timestamps_within_the_limits_are_fine(timestamp: int) -> None:
    config = TopicConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    batch = build_batch([Record(0, timestamp, None, b"v")])
    check_client_batch(batch, config, NOW_MS)


def test_log_append_time_is_the_brokers_to_set() -> None:
    assert refused(patched(21, struct.pack(">h", 0x08))) is ErrorCode.invalid_timestamp
    config = TopicConfig(message_timestamp_type="LogAppendTime")
    check_client_batch(make_batch(timestamp=5), config, NOW_MS)
