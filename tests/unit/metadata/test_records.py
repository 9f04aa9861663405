from __future__ import annotations

from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    MetadataVersionError,
    NoOpRecord,
    PartitionRecord,
    RecordType,
    RegisterBrokerRecord,
    TopicRecord,
    at_version,
    decode_record,
    encode_record,
    record_version,
)
from crabka.protocol.generated.index import MESSAGES

TOPIC_ID = UUID(int=77)
DIRECTORY = UUID(int=1234)


def _partition(directories: tuple[UUID, ...] = (DIRECTORY,)) -> PartitionRecord:
    return PartitionRecord(topic_id=TOPIC_ID, partition_id=3, replicas=(1,), isr=(1,), directories=directories)


def test_a_record_is_framed_by_frame_version_type_and_version() -> None:
    assert encode_record(NoOpRecord()) == bytes([1, 20, 0, 0])


def test_records_survive_encoding() -> None:
    record = TopicRecord(name="ä", topic_id=TOPIC_ID)
    assert decode_record(encode_record(record)) == record
    assert decode_record(memoryview(bytearray(encode_record(record)))) == record


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (bytes([2, 20, 0, 0]), "frame version 2"),
        (bytes([1, 99, 0, 0]), "unknown type 99"),
        (bytes([1, 3, 9, 0]), "PartitionRecord version 9: known are 0 to 2"),
    ],
)
def test_unknown_frames_types_and_versions_are_named(value: bytes, message: str) -> None:
    with pytest.raises(MetadataVersionError, match=message):
        decode_record(value)


@pytest.mark.parametrize("cut", range(len(encode_record(TopicRecord(name="topic", topic_id=TOPIC_ID)))))
def test_a_cut_record_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptDataError):
        decode_record(encode_record(TopicRecord(name="topic", topic_id=TOPIC_ID))[:cut])


def test_bytes_after_the_end_are_corrupt() -> None:
    with pytest.raises(CorruptDataError, match="after its end"):
        decode_record(encode_record(NoOpRecord()) + b"\0")


def test_an_overlong_number_in_the_header_is_corrupt() -> None:
    with pytest.raises(CorruptDataError, match="overlong"):
        decode_record(b"\xff" * 9)


def test_an_older_version_reads_with_defaults_for_what_it_lacks() -> None:
    value = encode_record(_partition(directories=()), 0)
    decoded = decode_record(value)
    assert decoded.__version__ == 0
    assert decoded.directories == ()
    assert decoded.eligible_leader_replicas is None


def test_an_older_version_refuses_to_lose_a_value() -> None:
    with pytest.raises(MetadataVersionError, match="directories"):
        encode_record(_partition(), 0)


def test_nested_structs_follow_the_version_of_their_record() -> None:
    endpoint = BrokerEndpoint(name="A", host="h", port=9092, security_protocol=0)
    record = RegisterBrokerRecord(
        broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=5, rack=None, end_points=(endpoint,), cordoned_log_dirs=()
    )
    old = at_version(record, 1)
    assert (old.__version__, old.end_points[0].__version__, old.end_points[0].host) == (1, 1, "h")


@pytest.mark.parametrize(
    ("metadata_version", "broker", "partition"),
    [(7, 1, 0), (8, 2, 0), (16, 2, 0), (17, 3, 1), (22, 3, 1), (23, 3, 2), (29, 3, 2), (30, 4, 2)],
)
def test_versions_follow_the_metadata_version_as_in_kafka(metadata_version: int, broker: int, partition: int) -> None:
    registration = RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=5, rack=None)
    assert record_version(registration, metadata_version) == broker
    assert record_version(_partition(), metadata_version) == partition
    assert record_version(NoOpRecord(), metadata_version) == 0


@pytest.mark.parametrize(
    ("change", "version"),
    [
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1), 0),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, log_dirs=(DIRECTORY,)), 2),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, cordoned_log_dirs=()), 3),
    ],
)
def test_a_registration_change_takes_the_lowest_version_that_can_say_it(
    change: BrokerRegistrationChangeRecord, version: int
) -> None:
    assert record_version(change, 30) == version


def test_every_generated_metadata_record_has_a_type() -> None:
    keys = {entry.api_key for entry in MESSAGES if entry.family == "metadata"}
    assert keys == {int(record_type) for record_type in RecordType}
