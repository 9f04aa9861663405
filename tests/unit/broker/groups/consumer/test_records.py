"""Records of consumer groups; what Kafka wrote is compared in the tests of all records."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.member import (
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    ReconciliationState,
)
from crabka.broker.groups.consumer.records import (
    ConsumerRecord,
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    PartitionMetadataRecord,
    PatternRecord,
    ResolvedPattern,
    TargetEpochRecord,
    TargetRecord,
    decode_consumer_record,
    encode_consumer_record,
)
from crabka.errors import WireError
from tests.support.coordinators.consumer_groups import topic_id

T = topic_id(0)
CLASSIC = ClassicMetadata(6_000, (("range", b"\0\1"), ("sticky", b"")))
RECORDS: list[ConsumerRecord] = [
    MemberRecord("g", "m", MemberMetadata("i", "r", "c", "/h", ("a", "b"), "x.*", 5, "range", CLASSIC)),
    MemberRecord("g", "m", MemberMetadata(topic_regex=None)),
    MemberRecord("g", "m", None),
    GroupEpochRecord("g", 7, -5),
    GroupEpochRecord("g", None),
    PartitionMetadataRecord("g"),
    TargetEpochRecord("g", 7, 99),
    TargetEpochRecord("g", None),
    TargetRecord("g", "m", {T: frozenset({0, 3})}),
    TargetRecord("g", "m", {}),
    TargetRecord("g", "m", None),
    CurrentRecord(
        "g", "m", CurrentAssignment(4, 3, ReconciliationState.UNREVOKED_PARTITIONS, {T: {0: 2, 1: 4}}, {T: {5: 1}})
    ),
    CurrentRecord("g", "m", None),
    PatternRecord("g", "x.*", ResolvedPattern(("xa", "xb"), 3, 8)),
    PatternRecord("g", "x.*", None),
]


@pytest.mark.parametrize("record", RECORDS)
def test_records_come_back(record: ConsumerRecord) -> None:
    key, value = encode_consumer_record(record)
    assert decode_consumer_record(int.from_bytes(key[:2]), key, value) == record


def test_epochs_that_older_brokers_did_not_store_are_the_members() -> None:
    key, _ = encode_consumer_record(CurrentRecord("g", "m", None))
    value = b"\0\0" + (9).to_bytes(4) + (8).to_bytes(4) + b"\0\2" + T.bytes + b"\2" + (3).to_bytes(4) + b"\0\1\0"
    decoded = decode_consumer_record(8, key, value)
    assert decoded == CurrentRecord("g", "m", CurrentAssignment(9, 8, assigned={T: {3: 9}}))


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\1", b"\0\0\0"])
def test_garbage_is_refused(value: bytes) -> None:
    key, _ = encode_consumer_record(GroupEpochRecord("g", None))
    with pytest.raises(WireError):
        decode_consumer_record(3, key, value)


def test_metadata_of_old_brokers_is_only_known_to_be_there() -> None:
    key, _ = encode_consumer_record(PartitionMetadataRecord("g"))
    assert decode_consumer_record(4, key, b"\0\0whatever") == PartitionMetadataRecord("g", deleted=False)
