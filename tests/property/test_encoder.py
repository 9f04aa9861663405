"""The encoder equals kio's writer, and the guarded reader undoes it, for random messages of every API."""

from __future__ import annotations

import dataclasses
import io
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kio.serial import entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveField, classify_field, is_optional

from crabka.protocol.api_keys import SPECS
from crabka.protocol.apis import read_request, read_response
from crabka.protocol.encoder import encode_message
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.schemas import Direction, message_class
from tests.support.scale import scaled

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def random_primitive(kafka_type: str, rng: random.Random) -> Any:
    if kafka_type in BITS:
        bits = BITS[kafka_type]
        return rng.choice((0, -1, rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))))
    match kafka_type:
        case "uint16":
            return rng.randrange(2**16)
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.uniform(-1e6, 1e6)
        case "string":
            return rng.choice(("", "é", "x" * rng.randrange(300)))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 3, 200)))
        case "uuid":
            return rng.choice((None, uuid.UUID(int=rng.getrandbits(128))))
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=rng.randrange(-1, 2**31))
        case "datetime_i64":
            return datetime.fromtimestamp(rng.randrange(2**31), tz=UTC)
    raise NotImplementedError(kafka_type)


def random_value(field: dataclasses.Field[Any], rng: random.Random) -> Any:
    if "tag" in field.metadata and rng.random() < 0.5 and field.default is not dataclasses.MISSING:
        return field.default
    if is_optional(field) and not str(field.type).startswith("tuple") and rng.random() < 0.3:
        return field.default if "tag" in field.metadata else None
    kind = classify_field(field)
    if isinstance(kind, EntityField):
        return random_entity(kind.type_, rng)
    if isinstance(kind, EntityTupleField):
        return tuple(random_entity(kind.type_, rng) for _ in range(rng.randrange(3)))
    if isinstance(kind, PrimitiveField):
        return random_primitive(field.metadata["kafka_type"], rng)
    return tuple(random_primitive(field.metadata["kafka_type"], rng) for _ in range(rng.randrange(4)))


def random_entity(entity_class: Any, rng: random.Random) -> Any:
    return entity_class(**{field.name: random_value(field, rng) for field in dataclasses.fields(entity_class)})


def encoded_by_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("key", sorted(SPECS), ids=lambda key: SPECS[key].name)
def test_random_messages_are_encoded_as_by_kio_and_read_back(
    key: int, direction: Direction, rng: random.Random
) -> None:
    spec = SPECS[key]
    newest_and_oldest = {spec.min_version, spec.max_version}
    versions = range(spec.min_version, spec.max_version + 1) if scaled(0, 1) else sorted(newest_and_oldest)
    read = read_request if direction == "request" else read_response
    for version in versions:
        for _ in range(scaled(5, 200)):
            entity = random_entity(message_class(key, version, direction), rng)
            encoded = encode_message(entity)
            assert encoded == encoded_by_kio(entity)
            assert read(key, version, encoded + b"tail") == entity
