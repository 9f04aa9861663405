"""Every generated message keeps its values through encode and decode, and agrees with kio's writer."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

import pytest
from kio.serial import entity_writer

from crabka.errors import WireError
from crabka.protocol.entity_codec import decode_entity, encode_entity
from crabka.protocol.generated.group.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from crabka.protocol.generated.index import MESSAGES

_RANGES = {
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}
CASES = [
    pytest.param(entry, version, id=f"{entry.name}-v{version}")
    for entry in MESSAGES
    for version in range(entry.min_version, entry.max_version + 1)
]


def _class_of(entry: Any, version: int) -> type[Any]:
    module = importlib.import_module(f"crabka.protocol.generated.{entry.family}.{entry.module}")
    result: type[Any] = module.VERSIONS[version]
    return result


def _random_value(annotation: Any, kafka_type: str | None, rng: random.Random) -> Any:
    arguments = get_args(annotation)
    if type(None) in arguments:
        if rng.random() < 0.3:
            return None
        annotation = next(item for item in arguments if item is not type(None))
    if get_origin(annotation) is tuple:
        element = get_args(annotation)[0]
        return tuple(_random_value(element, kafka_type, rng) for _ in range(rng.randrange(4)))
    if is_dataclass(annotation):
        return _random_entity(annotation, rng)  # type: ignore[arg-type]
    if kafka_type in _RANGES:
        return rng.randint(*_RANGES[kafka_type])
    makers: dict[str, Callable[[], Any]] = {
        "bool": lambda: rng.random() < 0.5,
        "float64": rng.random,
        "string": lambda: "".join(rng.choice("abcäöü✓") for _ in range(rng.randrange(200))),
        "bytes": lambda: rng.randbytes(rng.randrange(200)),
        "uuid": lambda: uuid.UUID(int=rng.choice([0, rng.getrandbits(128)])),
    }
    return makers[str(kafka_type)]()


def _random_entity(entity_type: type[Any], rng: random.Random) -> Any:
    values = {}
    for spec in fields(entity_type):
        value = _random_value(spec.type, spec.metadata.get("kafka_type"), rng)
        # A tagged field is absent when it is null; null beside a default that is not null cannot be written.
        values[spec.name] = spec.default if value is None and spec.metadata.get("tag") is not None else value
    return entity_type(**values)


@pytest.mark.parametrize(("entry", "version"), CASES)
def test_every_message_and_version_round_trips(entry: Any, version: int) -> None:
    rng = random.Random(f"{entry.name}{version}")
    entity_type = _class_of(entry, version)
    for _ in range(10):
        entity = _random_entity(entity_type, rng)
        encoded = encode_entity(entity)
        assert decode_entity(entity_type, encoded) == (entity, len(encoded))


def _has_tagged_struct(entity_type: type[Any]) -> bool:
    return any("tag" in spec.metadata and "kafka_type" not in spec.metadata for spec in fields(entity_type))


@pytest.mark.parametrize(("entry", "version"), CASES)
def test_encoding_equals_kios_where_kio_is_right(entry: Any, version: int) -> None:
    entity_type = _class_of(entry, version)
    if _has_tagged_struct(entity_type):
        pytest.skip("kio omits the presence byte of tagged structs")
    entity = _random_entity(entity_type, random.Random(7))
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, entity)
    assert encode_entity(entity) == buffer.getvalue()


def test_a_tagged_nullable_struct_carries_its_presence_byte_as_in_kafka() -> None:
    value = ConsumerGroupMemberMetadataValue(
        instance_id="",
        rack_id="",
        client_id="",
        client_host="",
        subscribed_topic_names=(),
        subscribed_topic_regex="",
        rebalance_timeout_ms=-1,
        server_assignor="",
        classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=7, supported_protocols=()),
    )
    # These bytes come from Kafka 4.3.0's own class.
    assert encode_entity(value).hex() == "010101010101ffffffff0101000701000000070100"


@pytest.mark.parametrize(("entry", "version"), CASES)
def test_damaged_bytes_are_refused_and_never_end_the_process(entry: Any, version: int) -> None:
    rng = random.Random(f"damage {entry.name}{version}")
    entity_type = _class_of(entry, version)
    for _ in range(20):
        damaged = bytearray(encode_entity(_random_entity(entity_type, rng)))
        for _ in range(rng.randrange(1, 4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        with contextlib.suppress(WireError):
            decode_entity(entity_type, bytes(damaged[: rng.randrange(len(damaged) + 1)]))
        with contextlib.suppress(WireError):
            decode_entity(entity_type, damaged)


def test_a_length_that_lies_is_refused_before_memory_is_reserved() -> None:
    entity_type = _class_of(next(entry for entry in MESSAGES if entry.name == "OffsetCommitKey"), 0)
    with pytest.raises(WireError):
        decode_entity(entity_type, b"\x7f\xff")
