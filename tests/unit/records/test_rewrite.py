"""Rewritten batches keep their records and get true checksums."""

from __future__ import annotations

import pytest

from crabka.records.builder import append_record, build_batch
from crabka.records.errors import CorruptBatchError
from crabka.records.header import crc_valid, parse_header, sealed
from crabka.records.record import Record, decode_records
from crabka.records.rewrite import MAX_INVALID_RECORDS, recompress, validate_records, with_log_append_time
from tests.support.recorded.batches import golden_batches

RECORDS = [Record(7, 1_000, b"k", b"v"), Record(8, 2_000, None, b"w")]


def test_log_append_time_changes_type_and_maximum_only() -> None:
    batch = build_batch(RECORDS, base_offset=7, codec=1, producer_id=4, producer_epoch=0, base_sequence=0)
    stamped = with_log_append_time(memoryview(batch), 9_999)
    before, after = parse_header(batch), parse_header(stamped)
    assert after == before._replace(attributes=before.attributes | 0x08, max_timestamp=9_999, crc=after.crc)
    assert crc_valid(stamped, 0, after)
    assert stamped[61:] == batch[61:]
    assert [record.timestamp for record in decode_records(stamped)] == [9_999, 9_999]


@pytest.mark.parametrize("codec", range(5))
def test_recompressed_golden_batches_hold_equal_records(codec: int) -> None:
    for batch in golden_batches("plain-0"):
        changed = recompress(batch, codec)
        header = parse_header(changed)
        assert header.codec == codec
        assert crc_valid(changed, 0, header)
        assert decode_records(changed) == decode_records(batch)


def test_recompression_is_bounded() -> None:
    with pytest.raises(CorruptBatchError, match="more than the allowed"):
        recompress(build_batch([Record(0, 0, None, bytes(9_999))], codec=1), 0, max_decompressed_bytes=99)


def test_valid_records_are_accepted() -> None:
    assert validate_records(build_batch(RECORDS, codec=3), keys_required=False) == []


def test_missing_key_is_reported_by_index() -> None:
    (invalid,) = validate_records(build_batch(RECORDS), keys_required=True)
    assert invalid.record_index == 1
    assert "without key" in invalid.message


def test_offsets_that_do_not_count_up_are_reported() -> None:
    payload = bytearray()
    for delta in (0, 2):
        append_record(payload, delta, RECORDS[0], 1_000)
    batch = sealed(bytearray(build_batch(RECORDS)[:61]) + payload)
    assert [invalid.record_index for invalid in validate_records(batch, keys_required=True)] == [1]


def test_the_list_of_refused_records_ends() -> None:
    records = [Record(number, 0, None, b"") for number in range(MAX_INVALID_RECORDS + 50)]
    found = validate_records(build_batch(records, codec=4), keys_required=True)
    assert [record.record_index for record in found] == list(range(MAX_INVALID_RECORDS))
