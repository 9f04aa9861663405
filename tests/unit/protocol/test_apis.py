from __future__ import annotations

import random

import pytest

from crabka.errors import WireError
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import (
    encode_request,
    encode_response,
    read_entity_untrusted,
    read_request,
    read_response,
    request_types,
)
from crabka.protocol.headers import parse_request_header, parse_response_header
from crabka.protocol.hot import read_produce_request
from crabka.protocol.schemas import message_class
from tests.support.recorded.wire_frames import RecordedFrame, recorded_frames
from tests.support.scale import scaled

INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF)


def read_untrusted(frame: RecordedFrame, payload: bytes) -> None:
    """Do what a node does with a frame; the API and version may have changed with the bytes."""
    view = memoryview(payload)
    if not frame.is_request:
        _, offset = parse_response_header(view, frame.api_key, frame.api_version)
        read_response(frame.api_key, frame.api_version, view, offset)
        return
    header = parse_request_header(view)
    read_request(header.api_key, header.api_version, view, header.body_offset)
    if header.api_key == ApiKey.PRODUCE:
        read_produce_request(header.api_version, view, header.body_offset)


def mutated(payload: bytes, rng: random.Random) -> bytes:
    data = bytearray(payload)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[position] = rng.choice(INTERESTING)
            case 1:
                data[position : position + 4] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"))
            case 2:
                data[position : position + 5] = b"\xff\xff\xff\xff" + rng.choice((b"\x07", b"\x0f"))
            case _:
                del data[position + 1 :]
    return bytes(data)


def test_mutated_frames_raise_nothing_but_wire_errors(rng: random.Random) -> None:
    frames = recorded_frames()
    refused = 0
    rounds = scaled(3_000, 300_000)
    for _ in range(rounds):
        frame = rng.choice(frames)
        try:
            read_untrusted(frame, mutated(frame.payload, rng))
        except WireError:
            refused += 1
    assert refused > rounds // 4


def test_every_prefix_of_a_request_is_a_wire_error() -> None:
    for frame in recorded_frames()[::25]:
        if frame.is_request:
            for length in range(len(frame.payload)):
                with pytest.raises(WireError):
                    read_untrusted(frame, frame.payload[:length])


def test_bytes_after_a_body_are_ignored() -> None:
    types = request_types(ApiKey.METADATA, 12)
    request = types.message(topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False)
    body = encode_request(request)
    assert read_request(ApiKey.METADATA, 12, b"xx" + body + b"tail", 2) == request


def test_writable_buffers_are_accepted() -> None:
    types = request_types(ApiKey.METADATA, 1)
    request = types.message(topics=[types.new("MetadataRequestTopic", name="t")])
    body = bytearray(encode_request(request))
    assert read_request(ApiKey.METADATA, 1, body) == request
    assert read_request(ApiKey.METADATA, 1, memoryview(body)) == request


def test_invalid_utf8_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="malformed MetadataRequest"):
        read_request(ApiKey.METADATA, 1, b"\0\0\0\1\0\2\xff\xfe")


def test_an_unknown_error_code_in_a_response_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="malformed HeartbeatResponse"):
        read_response(ApiKey.HEARTBEAT, 0, b"\x7f\xff")


def test_single_entities_can_be_read() -> None:
    types = request_types(ApiKey.METADATA, 1)
    topic = types.new("MetadataRequestTopic", name="t")
    assert read_entity_untrusted(type(topic), encode_response(topic)) == topic
    with pytest.raises(WireError):
        read_entity_untrusted(message_class(ApiKey.METADATA, 1, "request"), b"\0\0\0\1")
