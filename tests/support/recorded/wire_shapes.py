"""Recorded sessions as something to play again, and the shape of a response as something to compare.

The shape of a decoded response is the set of its leaves: a path, in which the items of an array share one name, and
what was seen there: null, empty, present, or the exact value for the fields that do not depend on the state of a node.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import struct
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kio.index import load_response_schema
from kio.serial import entity_reader

from tests.support.recorded.files import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Iterator

Shape = frozenset[tuple[str, str]]

# Fields whose value is a promise of the protocol or follows from the request, whatever the node has seen before.
EXACT_FIELDS = frozenset(
    {
        "error_code",
        "partition_error_code",
        "error_message",
        "partition_index",
        "is_internal",
        "is_future_key",
        "is_cordoned",
        "is_fenced",
        "endpoint_type",
        "resource_type",
        "config_source",
        "config_type",
        "is_sensitive",
        "read_only",
        "source",
        "topic_authorized_operations",
        "cluster_authorized_operations",
        "preferred_read_replica",
        "num_partitions",
        "replication_factor",
        "log_append_time",
    }
)


class Exchange(NamedTuple):
    """One recorded request with the answer of Apache Kafka."""

    label: str
    connection: int
    api_key: int
    api_version: int
    request: bytes
    response: bytes
    decoded_request: dict[str, object]


@functools.cache
def recorded_exchanges(session: str) -> tuple[Exchange, ...]:
    """All answered requests that clients sent to the broker listener in a session, in the order sent."""
    rows = [json.loads(line) for line in (GOLDEN / "wire" / f"{session}.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["listener"] == "broker"]
    answers = {(row["conn"], row["correlation_id"]): row for row in rows if row["dir"] == "response"}
    found = []
    for number, row in enumerate(rows, 1):
        answer = answers.get((row["conn"], row["correlation_id"]))
        if row["dir"] != "request" or answer is None:
            continue
        label = f"{number}-{row['api']}-v{row['api_version']}"
        frames = bytes.fromhex(row["hex"]), bytes.fromhex(answer["hex"])
        key = row["conn"], row["api_key"], row["api_version"]
        found.append(Exchange(label, *key, *frames, row.get("decoded") or {}))
    return tuple(found)


def decode_response(api_key: int, api_version: int, frame: bytes) -> object:
    """Decode a response frame; every byte of it must belong to the response."""
    schema = load_response_schema(api_key, api_version)
    _header, position = entity_reader(schema.__header_schema__)(frame, 0)
    response, size = entity_reader(schema)(frame, position)
    assert position + size == len(frame), f"{len(frame) - position - size} bytes follow the response"
    return response


def shape_of(response: object) -> Shape:
    """The shape of a decoded response, see the module."""
    return frozenset(_leaves("", "", response))


def _leaves(path: str, name: str, value: object) -> Iterator[tuple[str, str]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _leaves(f"{path}.{field.name}", field.name, getattr(value, field.name))
    elif isinstance(value, tuple):
        if not value:
            yield f"{path}[]", "empty"
        for item in value:
            yield from _leaves(f"{path}[]", name, item)
    elif value is None:
        yield path, "null"
    elif name in EXACT_FIELDS:
        yield path, str(value.value if isinstance(value, Enum) else value)
    else:
        yield path, "empty" if value in (b"", "") else "present"


def topic_ids(response: object) -> dict[str, bytes]:
    """Topic ids by name, wherever a response has both."""
    found: dict[str, bytes] = {}
    if isinstance(response, tuple):
        for item in response:
            found |= topic_ids(item)
    elif dataclasses.is_dataclass(response):
        name, topic_id = getattr(response, "name", None), getattr(response, "topic_id", None)
        if name is not None and topic_id is not None:
            found[name] = topic_id.bytes
        for field in dataclasses.fields(response):
            found |= topic_ids(getattr(response, field.name))
    return found


def with_session_id(request: bytes, session_id: int) -> bytes:
    """A Fetch request (version 15 or newer) that belongs to another fetch session."""
    (client_id_length,) = struct.unpack_from(">h", request, 8)
    # Header v2: key, version, correlation id, client id, no tagged fields; then max wait, min and max bytes, isolation.
    position = 8 + 2 + max(client_id_length, 0) + 1 + 4 + 4 + 4 + 1
    return request[:position] + struct.pack(">i", session_id) + request[position + 4 :]
