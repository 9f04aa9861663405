"""Metadata records (KIP-631): the value of a record in `__cluster_metadata` is a frame version, a type and a body.

The message classes are generated; here are their newest versions under Kafka's names. A decoded record may be an
older version of its class: fields that it lacks read as Kafka's defaults, and `__api_key__` is its type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import IntEnum
from importlib import import_module
from typing import Any, ClassVar, Protocol

from crabka.errors import CorruptDataError, CrabkaError, WireError
from crabka.ids import ZERO_UUID
from crabka.ports import Buffer
from crabka.protocol.entity_codec import decode_entity, encode_entity, write_unsigned_varint
from crabka.protocol.generated.index import MESSAGES
from crabka.protocol.generated.metadata.abort_transaction_record import AbortTransactionRecord
from crabka.protocol.generated.metadata.access_control_entry_record import AccessControlEntryRecord
from crabka.protocol.generated.metadata.begin_transaction_record import BeginTransactionRecord
from crabka.protocol.generated.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from crabka.protocol.generated.metadata.clear_elr_record import ClearElrRecord
from crabka.protocol.generated.metadata.client_quota_record import ClientQuotaRecord, EntityData
from crabka.protocol.generated.metadata.config_record import ConfigRecord
from crabka.protocol.generated.metadata.delegation_token_record import DelegationTokenRecord
from crabka.protocol.generated.metadata.end_transaction_record import EndTransactionRecord
from crabka.protocol.generated.metadata.feature_level_record import FeatureLevelRecord
from crabka.protocol.generated.metadata.fence_broker_record import FenceBrokerRecord
from crabka.protocol.generated.metadata.no_op_record import NoOpRecord
from crabka.protocol.generated.metadata.partition_change_record import PartitionChangeRecord
from crabka.protocol.generated.metadata.partition_record import PartitionRecord
from crabka.protocol.generated.metadata.producer_ids_record import ProducerIdsRecord
from crabka.protocol.generated.metadata.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from crabka.protocol.generated.metadata.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from crabka.protocol.generated.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from crabka.protocol.generated.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
from crabka.protocol.generated.metadata.remove_topic_record import RemoveTopicRecord
from crabka.protocol.generated.metadata.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from crabka.protocol.generated.metadata.topic_record import TopicRecord
from crabka.protocol.generated.metadata.unfence_broker_record import UnfenceBrokerRecord
from crabka.protocol.generated.metadata.unregister_broker_record import UnregisterBrokerRecord
from crabka.protocol.generated.metadata.user_scram_credential_record import UserScramCredentialRecord
from crabka.protocol.generated.metadata.zk_migration_state_record import ZkMigrationStateRecord

FRAME_VERSION = 1

__all__ = [
    "FRAME_VERSION",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "ControllerEndpoint",
    "ControllerFeature",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "EntityData",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataRecord",
    "MetadataVersionError",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RecordType",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
    "at_version",
    "decode_record",
    "encode_record",
    "record_version",
]


class MetadataRecord(Protocol):
    """Any message of the metadata log."""

    __version__: ClassVar[int]
    __flexible__: ClassVar[bool]
    __api_key__: ClassVar[int]


class RecordType(IntEnum):
    """The types of metadata records, named as kafka-dump-log prints them without `_RECORD`."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28


class MetadataVersionError(CrabkaError):
    """A metadata record of a type or version that this release does not know."""


_ENTRIES = {entry.api_key: entry for entry in MESSAGES if entry.family == "metadata"}
_CLASSES: dict[tuple[int, int], type[Any]] = {}


def decode_record(value: Buffer) -> Any:
    """Read the value of a metadata record.

    Raises MetadataVersionError for an unknown frame, type or version, CorruptDataError for a malformed body.
    """
    try:
        frame_version, position = _read_unsigned_varint(value, 0)
        api_key, position = _read_unsigned_varint(value, position)
        version, position = _read_unsigned_varint(value, position)
    except IndexError as error:
        raise CorruptDataError("metadata record", "ends inside its header") from error
    if frame_version != FRAME_VERSION:
        raise MetadataVersionError(f"metadata record with frame version {frame_version}, known is {FRAME_VERSION}")
    entity_type = _CLASSES.get((api_key, version)) or _load_class(api_key, version)
    try:
        entity, size = decode_entity(entity_type, value, position)
    except WireError as error:
        raise CorruptDataError(f"metadata record {RecordType(api_key).name}", str(error)) from error
    if position + size != len(value):
        raise CorruptDataError(f"metadata record {RecordType(api_key).name}", "has bytes after its end")
    return entity


def encode_record(message: MetadataRecord, version: int | None = None) -> bytes:
    """Return the value of a metadata record, in the message's own version or in the one given."""
    if version is not None and version != message.__version__:
        message = at_version(message, version)
    out = bytearray((FRAME_VERSION,))
    write_unsigned_varint(out, message.__api_key__)
    write_unsigned_varint(out, message.__version__)
    return bytes(out) + encode_entity(message)


def at_version(message: MetadataRecord, version: int) -> Any:
    """Return the same message as another version of its class.

    Raises MetadataVersionError if that version cannot say what the message says.
    """
    return _convert(message, _load_class(message.__api_key__, version))


def _convert(message: Any, target: type[Any]) -> Any:
    wanted = {spec.name: spec for spec in fields(target)}
    values: dict[str, Any] = {}
    for spec in fields(message):
        value = getattr(message, spec.name)
        if spec.name in wanted:
            values[spec.name] = _convert_value(value, target)
        elif not _says_nothing(value) and value != spec.default:
            raise MetadataVersionError(f"{target.__name__} has no {spec.name}, which is {value!r}")
    return target(**values)


def _says_nothing(value: Any) -> bool:
    """An empty value, or directories of replicas that are all still migrating (KIP-858)."""
    return not value or (isinstance(value, tuple) and all(item == ZERO_UUID for item in value))


def _convert_value(value: Any, parent: type[Any]) -> Any:
    if isinstance(value, tuple) and value and hasattr(value[0], "__version__"):
        return tuple(_convert_value(item, parent) for item in value)
    if hasattr(value, "__version__"):
        name = type(value).__name__.rpartition("V")[0]
        return _convert(value, getattr(import_module(parent.__module__), f"{name}V{parent.__version__}"))
    return value


def _load_class(api_key: int, version: int) -> type[Any]:
    entry = _ENTRIES.get(api_key)
    if entry is None:
        raise MetadataVersionError(f"metadata record of unknown type {api_key}")
    if not entry.min_version <= version <= entry.max_version:
        known = f"{entry.min_version} to {entry.max_version}"
        raise MetadataVersionError(f"{entry.name} version {version}: known are {known}")
    module = import_module(f"crabka.protocol.generated.metadata.{entry.module}")
    entity_type: type[Any] = getattr(module, f"{entry.name}V{version}")
    _CLASSES[api_key, version] = entity_type
    return entity_type


def _read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise CorruptDataError("metadata record", "has an overlong number in its header")


def _broker_change_version(message: Any) -> int:
    """Kafka writes the lowest version of this record that can carry the change."""
    if message.cordoned_log_dirs is not None:
        return 3
    if message.log_dirs:
        return 2
    return 1 if message.in_controlled_shutdown else 0


# metadata.version from which each record version is written (Kafka's MetadataVersion), highest first.
_VERSION_STEPS: dict[int, tuple[tuple[int, int], ...]] = {
    RecordType.REGISTER_BROKER: ((30, 4), (17, 3), (8, 2), (7, 1)),
    RecordType.PARTITION: ((23, 2), (17, 1)),
    RecordType.PARTITION_CHANGE: ((23, 2), (17, 1)),
}
_BY_CONTENT: dict[int, Callable[[Any], int]] = {RecordType.BROKER_REGISTRATION_CHANGE: _broker_change_version}


def record_version(message: MetadataRecord, metadata_version: int) -> int:
    """Return the version in which a cluster at that metadata.version writes this record."""
    by_content = _BY_CONTENT.get(message.__api_key__)
    if by_content is not None:
        return by_content(message)
    for level, version in _VERSION_STEPS.get(message.__api_key__, ()):
        if metadata_version >= level:
            return version
    return 0
