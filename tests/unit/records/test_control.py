"""Control records: markers and KRaft's messages, rebuilt byte for byte from Kafka's own files."""

from __future__ import annotations

import uuid

import pytest
from kio.static.primitive import i16, i32

from crabka.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    KRaftVersionFeature,
    LeaderChangeMessage,
    LeaderChangeVoter,
    Voter,
    VotersRecord,
    build_control_batch,
    build_end_transaction_batch,
    control_record_type,
    parse_control_record,
)
from crabka.records.errors import CorruptBatchError
from crabka.records.header import parse_header
from crabka.records.record import Record, decode_records
from tests.support.recorded.batches import batches_in, golden_batches
from tests.support.recorded.files import GOLDEN

METADATA = GOLDEN / "single" / "d1" / "__cluster_metadata-0"


@pytest.mark.parametrize("directory", ["txn-0", "txn-1"])
def test_golden_transaction_markers_are_rebuilt_byte_for_byte(directory: str) -> None:
    outcomes = set()
    for batch in golden_batches(directory):
        header = parse_header(batch)
        if not header.is_control:
            continue
        (record,) = decode_records(batch)
        marker = parse_control_record(record)
        assert isinstance(marker, EndTransactionMarker)
        outcomes.add(marker.committed)
        again = build_end_transaction_batch(
            marker,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            timestamp=record.timestamp,
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
        )
        assert again == batch
    assert outcomes == {True, False}


def test_golden_kraft_control_batches_are_rebuilt_byte_for_byte() -> None:
    seen = set()
    for path in [*METADATA.glob("*.log"), *METADATA.glob("*.checkpoint")]:
        for batch in batches_in(path.read_bytes()):
            header = parse_header(batch)
            if not header.is_control:
                continue
            records = decode_records(batch)
            messages = [parse_control_record(record) for record in records]
            seen |= {control_record_type(record) for record in records}
            again = build_control_batch(
                messages,  # type: ignore[arg-type] # the metadata log holds no transaction markers
                timestamp=records[0].timestamp,
                base_offset=header.base_offset,
                leader_epoch=header.partition_leader_epoch,
            )
            assert again == batch
    assert seen == {
        ControlRecordType.LEADER_CHANGE,
        ControlRecordType.SNAPSHOT_HEADER,
        ControlRecordType.SNAPSHOT_FOOTER,
        ControlRecordType.KRAFT_VERSION,
        ControlRecordType.KRAFT_VOTERS,
    }


def test_leader_change_of_a_dynamic_quorum_round_trips() -> None:
    voter = LeaderChangeVoter(voter_id=i32(1), voter_directory_id=uuid.UUID(int=5))
    message = LeaderChangeMessage(version=i16(1), leader_id=1, voters=(voter,), granting_voters=(voter,))  # type: ignore[arg-type]
    (record,) = decode_records(build_control_batch([message], timestamp=3))
    assert parse_control_record(record) == message


def test_voters_round_trip() -> None:
    versions = KRaftVersionFeature(min_supported_version=i16(0), max_supported_version=i16(1))
    voter = Voter(voter_id=3, voter_directory_id=uuid.UUID(int=9), endpoints=(), k_raft_version_feature=versions)  # type: ignore[arg-type]
    message = VotersRecord(version=i16(0), voters=(voter,))
    (record,) = decode_records(build_control_batch([message], timestamp=3))
    assert parse_control_record(record) == message


def test_type_of_a_later_kafka_is_skipped() -> None:
    record = Record(0, 0, b"\x00\x00\x00\x63", b"")
    assert control_record_type(record) is None
    assert parse_control_record(record) is None


@pytest.mark.parametrize("key", [None, b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_malformed_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        control_record_type(Record(0, 0, key, b""))


@pytest.mark.parametrize("kind", [0, 1, 2, 6])
def test_cut_value_is_refused(kind: int) -> None:
    with pytest.raises(CorruptBatchError):
        parse_control_record(Record(0, 0, bytes([0, 0, 0, kind]), b"\x00"))
