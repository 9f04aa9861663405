"""Building batches: header fields and, against Kafka's own files, equal bytes."""

from __future__ import annotations

from crabka.records.builder import build_batch, encode_records
from crabka.records.header import crc_valid, parse_header
from crabka.records.record import Record, decode_records
from tests.support.recorded.batches import golden_batches


def test_batch_is_sealed_with_length_and_checksum() -> None:
    batch = build_batch([Record(0, 10, b"k", b"v")])
    header = parse_header(batch)
    assert header.size_in_bytes == len(batch)
    assert crc_valid(batch, 0, header)


def test_defaults_are_those_of_a_plain_producer() -> None:
    header = parse_header(build_batch([Record(0, 10, b"k", b"v"), Record(0, 7, None, None)]))
    assert (header.base_offset, header.partition_leader_epoch, header.attributes) == (0, -1, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.base_timestamp, header.max_timestamp) == (10, 10)


def test_flags_and_codec_land_in_the_attributes() -> None:
    batch = build_batch([Record(0, 1, None, None)], codec=4, transactional=True, control=True, timestamp_type=1)
    assert parse_header(batch).attributes == 4 | 0x08 | 0x10 | 0x20


def test_empty_batch_has_no_timestamps_and_no_last_record() -> None:
    header = parse_header(build_batch([]))
    assert (header.records_count, header.last_offset_delta, header.base_timestamp, header.max_timestamp) == (
        0,
        -1,
        -1,
        -1,
    )


def test_one_record_has_kafkas_layout() -> None:
    assert encode_records([Record(0, 5, b"k", None, (("h", b"x"),))], 3).hex() == "16000400026b010202680278"


def test_rebuilding_uncompressed_golden_batches_gives_kafkas_bytes() -> None:
    rebuilt = 0
    for batch in golden_batches():
        header = parse_header(batch)
        complete = header.records_count == header.last_offset_delta + 1
        if header.codec or header.has_delete_horizon or header.timestamp_type or not complete:
            continue
        again = build_batch(
            decode_records(batch),
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
        )
        assert again == batch, header
        rebuilt += 1
    assert rebuilt > 100
