from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import OperationError
from crabka.log.partition.append import InvalidRecordsError, needs_preparation, prepare_batch, prepared_as_built
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.header import crc_valid, parse_header
from crabka.records.record import Record, decode_records
from tests.support.faults.bombs import bomb
from tests.support.storage.small import NOW_MS, make_batch

PLAIN = TopicConfig()


@pytest.mark.parametrize(
    "config",
    [
        replace(PLAIN, message_timestamp_type="LogAppendTime"),
        replace(PLAIN, compression_type="zstd"),
        replace(PLAIN, cleanup_policy=frozenset({"compact", "delete"})),
    ],
)
def test_some_settings_make_the_broker_look_inside(config: TopicConfig) -> None:
    assert needs_preparation(config)
    assert not needs_preparation(PLAIN)


def test_what_the_node_built_is_taken_as_it_is_unless_settings_change_it() -> None:
    batch = make_batch(3)
    header = parse_header(batch)
    prepared = prepared_as_built(batch, header, replace(PLAIN, cleanup_policy=frozenset({"compact"})))
    assert prepared is not None
    assert (prepared.batch, prepared.header, prepared.log_append_time_ms) == (batch, header, -1)
    assert prepared_as_built(batch, header, replace(PLAIN, compression_type="zstd")) is None
    assert prepared_as_built(batch, header, replace(PLAIN, message_timestamp_type="LogAppendTime")) is None


def test_log_append_time_is_stamped_inside_the_checksum() -> None:
    batch = make_batch(3)
    config = replace(PLAIN, message_timestamp_type="LogAppendTime")
    prepared = prepare_batch(batch, parse_header(batch), config, NOW_MS + 77)
    assert prepared.log_append_time_ms == NOW_MS + 77
    assert prepared.header.timestamp_type == 1
    assert prepared.header.max_timestamp == NOW_MS + 77
    assert crc_valid(prepared.batch, 0, prepared.header)


def test_batches_of_another_codec_are_packed_anew() -> None:
    batch = make_batch(3)
    prepared = prepare_batch(batch, parse_header(batch), replace(PLAIN, compression_type="gzip"), NOW_MS)
    assert prepared.header.codec == 1
    assert prepared.log_append_time_ms == -1
    assert decode_records(prepared.batch) == decode_records(batch)


def test_batches_of_the_topics_codec_stay_as_they_are() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b"v")], codec=4)
    prepared = prepare_batch(batch, parse_header(batch), replace(PLAIN, compression_type="zstd"), NOW_MS)
    assert prepared.batch is batch


def test_compacted_topics_refuse_records_without_key() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")])
    config = replace(PLAIN, cleanup_policy=frozenset({"compact"}))
    with pytest.raises(InvalidRecordsError) as caught:
        prepare_batch(batch, parse_header(batch), config, NOW_MS)
    assert caught.value.error_code is ErrorCode.invalid_record
    assert [error.record_index for error in caught.value.record_errors] == [1]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "config",
    [
        replace(PLAIN, cleanup_policy=frozenset({"compact"}), max_message_bytes=100_000),
        replace(PLAIN, compression_type="uncompressed", max_message_bytes=100_000),
    ],
    ids=["compacted", "recompressed"],
)
def test_a_bomb_is_refused_as_too_large(config: TopicConfig, codec: int) -> None:
    batch = bomb(codec, 2_000_000)
    with pytest.raises(OperationError) as caught:
        prepare_batch(batch, parse_header(batch), config, NOW_MS)
    assert caught.value.error_code is ErrorCode.message_too_large


def test_a_batch_of_too_many_records_is_refused_before_it_is_decompressed() -> None:
    batch = bomb(4, 100, records_count=1_000_000)
    with pytest.raises(OperationError, match="1000000 records exceeds") as caught:
        prepare_batch(batch, parse_header(batch), replace(PLAIN, cleanup_policy=frozenset({"compact"})), NOW_MS)
    assert caught.value.error_code is ErrorCode.message_too_large
