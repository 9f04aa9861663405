"""Requests whose every number is wild: negative, near the ends of its type, epochs and offsets that cannot be.

The shape of each request is right, so that it reaches the rules that judge its numbers. `attack` sends such requests to
any listener; what must hold afterwards is for the caller to say.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import socket
import uuid
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from crabka.protocol.apis import SPECS, ApiKey, encode_request
from crabka.protocol.headers import RequestHeader, pack_request
from crabka.protocol.schemas import message_class

# Everything that a controller takes from its peers and from brokers.
QUORUM_KEYS = (
    ApiKey.FETCH,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
)
# What else carries epochs and offsets to a broker.
BROKER_KEYS = (
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.WRITE_TXN_MARKERS,
)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 48}
_FRAMES_PER_CONNECTION = 8
_ANSWER_SECONDS = 0.05


class WildFacts(NamedTuple):
    """What is true of the node, so that some fields are right and the others are looked at."""

    cluster_id: str
    strings: tuple[str, ...] = ("__cluster_metadata", "", "wild", "kraft.version", "CONTROLLER", "127.0.0.1")
    uuids: tuple[uuid.UUID, ...] = (uuid.UUID(int=1), uuid.UUID(int=0), uuid.UUID(int=(1 << 128) - 1))


def wild_frames(rng: random.Random, keys: Sequence[ApiKey], count: int, facts: WildFacts) -> Iterator[bytes]:
    """Yield requests of all the APIs and all their versions."""
    for number in range(count):
        key = rng.choice(keys)
        version = rng.randint(SPECS[key].min_version, SPECS[key].max_version)
        body = _wild_entity(rng, message_class(key, version, "request"), facts)
        yield pack_request(RequestHeader(int(key), version, number, "wild", 0), encode_request(body))


def attack(address: tuple[str, int], rng: random.Random, keys: Sequence[ApiKey], count: int, facts: WildFacts) -> None:
    """Send so many wild requests to a listener and read what it answers."""
    frames = list(wild_frames(rng, keys, count, facts))
    for first in range(0, count, _FRAMES_PER_CONNECTION):
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=10) as connection:
            connection.sendall(b"".join(frames[first : first + _FRAMES_PER_CONNECTION]))
            connection.shutdown(socket.SHUT_WR)
            # A fetch may wait for as long as its wild number says: it is given up.
            connection.settimeout(_ANSWER_SECONDS)
            while connection.recv(1 << 16):
                pass


def _wild_entity(rng: random.Random, entity_class: Any, facts: WildFacts) -> Any:
    return entity_class(
        **{field.name: _wild_field(rng, field, field.type, facts) for field in dataclasses.fields(entity_class)}
    )


def _wild_field(rng: random.Random, field: dataclasses.Field[Any], declared: Any, facts: WildFacts) -> Any:
    if get_origin(declared) in (Union, UnionType):
        choices = [each for each in get_args(declared) if each is not type(None)]
        return _wild_field(rng, field, choices[0], facts)
    if get_origin(declared) is tuple:
        item = get_args(declared)[0]
        count = 1 if rng.random() < 0.8 else rng.choice([0, 2])
        return tuple(_wild_field(rng, field, item, facts) for _ in range(count))
    if dataclasses.is_dataclass(declared):
        return _wild_entity(rng, declared, facts)
    return _wild_primitive(rng, field, facts)


def _wild_primitive(rng: random.Random, field: dataclasses.Field[Any], facts: WildFacts) -> Any:
    kind = field.metadata["kafka_type"]
    if kind in _BITS:
        return _wild_integer(rng, field.name, _BITS[kind])
    match kind:
        case "uint16":
            return rng.choice([0, 1, 9093, 65_535])
        case "bool":
            return rng.random() < 0.5
        case "uuid":
            return rng.choice((uuid.UUID(int=0), *facts.uuids))
        case "string":
            return _wild_text(rng, field.name, facts)
        case "float64":
            return rng.choice([0.0, -1.0, 1e308])
        case _:
            return b""


def _wild_integer(rng: random.Random, name: str, bits: int) -> int:
    if name in ("partition", "partition_index", "index") and rng.random() < 0.8:
        return 0
    if rng.random() < 0.5:
        # Beside numbers that can be, so that the others are reached.
        return rng.choice([0, 0, 1])
    top = (1 << (bits - 1)) - 1
    return rng.choice([top, top, top - 1, -top - 1, -top, -1, -2, 0, 2, 7, top >> 1, rng.randint(-top, top)])


def _wild_text(rng: random.Random, name: str, facts: WildFacts) -> str:
    if name == "cluster_id":
        return rng.choice([facts.cluster_id, facts.cluster_id, "another"])
    if name in ("topic", "topic_name", "name") and rng.random() < 0.7:
        return "__cluster_metadata"
    return rng.choice(facts.strings)
