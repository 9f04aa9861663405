"""Control records: transaction markers and the marks that KRaft leaves in its log and snapshots.

A control record's key is (version int16, type int16). The value of a transaction marker is (version int16,
coordinator epoch int32); KRaft's values are messages whose first field is their version (KIP-98, KIP-595, KIP-853).
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final, NamedTuple

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage as LeaderChangeMessageV0
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage
from kio.schema.leader_change_message.v1.data import Voter as LeaderChangeVoter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import Endpoint, KRaftVersionFeature, Voter, VotersRecord

from crabka.errors import WireError
from crabka.protocol.apis import encode_message, read_entity_untrusted
from crabka.records.builder import build_batch
from crabka.records.errors import CorruptBatchError
from crabka.records.record import Record

__all__ = [
    "ControlRecordType",
    "EndTransactionMarker",
    "Endpoint",
    "KRaftVersionFeature",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "LeaderChangeMessageV0",
    "LeaderChangeVoter",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "Voter",
    "VotersRecord",
    "build_control_batch",
    "build_end_transaction_batch",
    "control_record_type",
    "parse_control_record",
]

_KEY: Final = struct.Struct(">hh")
_KEY_VERSION: Final = 0
_END_TRANSACTION_VALUE: Final = struct.Struct(">hi")
_END_TRANSACTION_VERSION: Final = 0
_VERSION: Final = struct.Struct(">h")


class ControlRecordType(enum.IntEnum):
    """What a control record says, as Kafka numbers it."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in a partition."""

    committed: bool
    coordinator_epoch: int


ControlMessage = (
    LeaderChangeMessageV0
    | LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)

_TYPE_OF_CLASS: Final[dict[type, ControlRecordType]] = {
    LeaderChangeMessageV0: ControlRecordType.LEADER_CHANGE,
    LeaderChangeMessage: ControlRecordType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlRecordType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlRecordType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlRecordType.KRAFT_VERSION,
    VotersRecord: ControlRecordType.KRAFT_VOTERS,
}
_NEWEST_CLASS: Final[dict[ControlRecordType, Any]] = {
    control_type: message_class for message_class, control_type in _TYPE_OF_CLASS.items()
}


def control_record_type(record: Record) -> ControlRecordType | None:
    """Return what the control record is, None for a type of some later Kafka, which readers skip.

    Raises CorruptBatchError when the key is no control key.
    """
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatchError("a control record needs a key of four bytes")
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatchError(f"a control record has key version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return None


def parse_control_record(record: Record) -> EndTransactionMarker | ControlMessage | None:
    """Return the content of a control record, None for a type of some later Kafka.

    Raises CorruptBatchError when key or value are malformed.
    """
    control_type = control_record_type(record)
    if control_type is None:
        return None
    value = record.value or b""
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        if len(value) < _END_TRANSACTION_VALUE.size:
            raise CorruptBatchError("the value of a transaction marker is cut short")
        _, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
        return EndTransactionMarker(control_type is ControlRecordType.COMMIT, coordinator_epoch)
    return _parse_message(control_type, value)


def _parse_message(control_type: ControlRecordType, value: bytes) -> ControlMessage:
    message_class = _NEWEST_CLASS[control_type]
    if message_class is LeaderChangeMessage and value[:2] == _VERSION.pack(0):
        message_class = LeaderChangeMessageV0
    try:
        message: ControlMessage = read_entity_untrusted(message_class, value)
    except WireError as error:
        raise CorruptBatchError(f"malformed control record {control_type.name}: {error}") from error
    return message


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the control batch that ends a transaction."""
    control_type = ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
    value = _END_TRANSACTION_VALUE.pack(_END_TRANSACTION_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, _KEY.pack(_KEY_VERSION, control_type), value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def build_control_batch(
    messages: list[ControlMessage], *, timestamp: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """Return one control batch with KRaft's messages, one record each."""
    records = [
        Record(
            base_offset + index,
            timestamp,
            _KEY.pack(_KEY_VERSION, _TYPE_OF_CLASS[type(message)]),
            encode_message(message),
        )
        for index, message in enumerate(messages)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch, control=True)
