"""Records of `__consumer_offsets` against what Kafka wrote."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.broker.groups.consumer.records import (
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
    encode_consumer_record,
)
from crabka.broker.groups.messages import GroupSnapshot, MemberSnapshot
from crabka.broker.groups.offsets import CommittedOffset
from crabka.broker.groups.opaque import OpaqueType
from crabka.broker.groups.records import (
    GroupRecord,
    OffsetRecord,
    OpaqueRecord,
    decode_pair,
    group_key,
    group_pair,
    offset_key,
    offset_pair,
)
from crabka.errors import WireError
from crabka.records.record import Record, decode_records
from tests.support.recorded.batches import batches_in
from tests.support.recorded.files import GOLDEN

LOGS = sorted((GOLDEN / "single").glob("d*/__consumer_offsets-*/*.log"))


def golden_records() -> list[Record]:
    return [
        record
        for path in LOGS
        for batch in batches_in(path.read_bytes())
        for record in decode_records(batch)
        if record.key is not None and len(record.key) > 4
    ]


def test_what_kafka_wrote_is_written_alike() -> None:
    kinds = set()
    for record in golden_records():
        assert record.key is not None
        stored = decode_pair(record.key, record.value)
        kinds.add(type(stored))
        match stored:
            case OffsetRecord(group_id, place, CommittedOffset() as committed):
                assert offset_pair(group_id, place, committed) == (record.key, record.value)
            case GroupRecord(group_id, GroupSnapshot() as snapshot):
                assert group_pair(group_id, snapshot) == (record.key, record.value)
            case OpaqueRecord():
                assert stored.key == record.key
                assert stored.deleted == (record.value is None)
            case MemberRecord() | GroupEpochRecord() | TargetEpochRecord() | TargetRecord() | CurrentRecord():
                assert encode_consumer_record(stored) == (record.key, record.value)
    consumer_kinds = {MemberRecord, GroupEpochRecord, TargetEpochRecord, TargetRecord, CurrentRecord}
    assert kinds == {OffsetRecord, GroupRecord, OpaqueRecord} | consumer_kinds


@given(
    st.text(max_size=20),
    st.integers(0, 2**31 - 1),
    st.builds(
        CommittedOffset,
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        st.text(max_size=20),
        st.integers(0, 2**62),
        st.just(-1),
        st.uuids(),
    ),
)
def test_offsets_come_back(topic: str, partition: int, committed: CommittedOffset) -> None:
    place = (topic, partition)
    assert decode_pair(*offset_pair("g", place, committed)) == OffsetRecord("g", place, committed)


def test_an_offset_with_a_time_of_its_own_keeps_it() -> None:
    committed = CommittedOffset(5, 3, "m", 7, 99, uuid.UUID(int=5))
    pair = offset_pair("g", ("t", 1), committed)
    assert pair[1] is not None
    assert pair[1][:2] == b"\0\1"
    assert decode_pair(*pair) == OffsetRecord("g", ("t", 1), CommittedOffset(5, -1, "m", 7, 99))


def test_groups_come_back() -> None:
    member = MemberSnapshot("m", "i", "c", "/h", 7, 5, b"s", b"a")
    snapshot = GroupSnapshot("consumer", 3, "range", "m", 12, (member,))
    assert decode_pair(*group_pair("g", snapshot)) == GroupRecord("g", snapshot)


def test_tombstones_delete() -> None:
    assert decode_pair(offset_key("g", ("t", 1)), None) == OffsetRecord("g", ("t", 1), None)
    assert decode_pair(group_key("g"), None) == GroupRecord("g", None)
    key = b"\0\x11" + group_key("g")[2:]
    assert decode_pair(key, None) == OpaqueRecord("g", OpaqueType.STREAMS, "Metadata", key, deleted=True)


def test_unknown_kinds_are_left_alone() -> None:
    assert decode_pair(b"\x7f\0", b"") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\0\1\0\5x", None),
        (offset_key("g", ("t", 1)), b"\0\x63"),
        (offset_key("g", ("t", 1)), b"\0\4\0"),
        (group_key("g"), b"\0\x63"),
        (group_key("g"), b""),
    ],
)
def test_broken_records_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(WireError):
        decode_pair(key, value)
