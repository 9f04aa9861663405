from __future__ import annotations

import struct

import pytest

from crabka.errors import WireError
from crabka.protocol.api_keys import SPECS, ApiKey
from crabka.protocol.apis import encode_message, read_request, request_types, response_types
from crabka.protocol.hot import read_produce_request
from crabka.protocol.length_guard import MAX_REQUEST_ELEMENTS, length_guard
from crabka.protocol.schemas import message_class
from tests.support.recorded.wire_frames import recorded_frames
from tests.support.wire.null_fields import null_bodies, plain_body

metadata_v1 = length_guard(message_class(ApiKey.METADATA, 1, "request"))
metadata_v12 = length_guard(message_class(ApiKey.METADATA, 12, "request"))


@pytest.mark.parametrize("count", [1, 2, 1000, 2**20, 2**31 - 1])
def test_a_legacy_array_longer_than_the_frame_is_refused(count: int) -> None:
    with pytest.raises(WireError, match=f"{count} elements in 0 bytes"):
        metadata_v1(memoryview(struct.pack(">i", count)), 0)


@pytest.mark.parametrize("raw", [b"\x03", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"])
def test_a_compact_array_longer_than_the_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError, match="elements in"):
        metadata_v12(memoryview(raw + b"\0" * 10), 0)


def test_null_and_empty_arrays_pass() -> None:
    metadata_v1(memoryview(b"\xff\xff\xff\xff"), 0)
    metadata_v1(memoryview(b"\0\0\0\0"), 0)
    metadata_v12(memoryview(b"\0\0\0\0\0"), 0)


def test_more_elements_than_allowed_are_refused_though_the_bytes_are_there() -> None:
    count = MAX_REQUEST_ELEMENTS + 1
    with pytest.raises(WireError, match="too many"):
        metadata_v1(memoryview(struct.pack(">i", count) + bytes(2 * count)), 0)


def test_a_cut_body_is_refused_and_a_tail_ignored() -> None:
    for frame in recorded_frames()[:40]:
        if frame.is_request or frame.api_key == ApiKey.API_VERSIONS:
            continue
        body = memoryview(frame.payload)[5:]
        check = length_guard(message_class(frame.api_key, frame.api_version, "response"))
        check(memoryview(bytes(body) + b"tail"), 0)
        for length in range(0, len(body), 7):
            with pytest.raises(WireError):
                check(body[:length], 0)


def test_a_known_tagged_field_must_have_the_length_it_claims() -> None:
    types = request_types(ApiKey.FETCH, 12)
    body = encode_message(
        types.message(max_wait=1, min_bytes=1, topics=(), forgotten_topics_data=(), rack_id="", cluster_id="abc")
    )
    check = length_guard(message_class(ApiKey.FETCH, 12, "request"))
    check(memoryview(body), 0)
    tag = b"\1\0\4\4abc"
    assert body.endswith(tag)
    with pytest.raises(WireError, match="tagged field 0"):
        check(memoryview(body[: -len(tag)] + b"\1\0\5\4abcx"), 0)


def test_a_lying_number_of_tagged_fields_is_refused() -> None:
    with pytest.raises(WireError, match="tagged fields"):
        metadata_v12(memoryview(b"\0\0\0\xff\xff\xff\xff\x0f"), 0)


def test_nullable_structs_pass_in_both_forms() -> None:
    types = response_types(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)
    check = length_guard(message_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, "response"))
    for assignment in (None, types.new("Assignment", topic_partitions=())):
        body = encode_message(
            types.message(
                throttle_time=0,
                error_code=0,
                error_message=None,
                member_id="m",
                member_epoch=1,
                heartbeat_interval=5000,
                assignment=assignment,
            )
        )
        check(memoryview(body), 0)
        with pytest.raises(WireError):
            check(memoryview(body[:-1]), 0)


def versions_with_nulls(api_key: int) -> tuple[int, ...]:
    """The oldest and the newest version, and the first that is flexible: the ways to write a null."""
    spec = SPECS[api_key]
    flexible = (
        version
        for version in range(spec.min_version, spec.max_version + 1)
        if message_class(api_key, version, "request").__flexible__
    )
    return tuple(sorted({spec.min_version, next(flexible, spec.max_version), spec.max_version}))


@pytest.mark.parametrize("api_key", [ApiKey(key) for key in SPECS], ids=lambda key: ApiKey(key).name)
def test_null_is_refused_in_every_field_that_may_not_be_null(api_key: ApiKey) -> None:
    for version in versions_with_nulls(api_key):
        request_class = message_class(api_key, version, "request")
        read_request(api_key, version, plain_body(request_class))
        for name, body in null_bodies(request_class):
            with pytest.raises(WireError, match="null"):
                read_request(api_key, version, body)
            assert name


def test_the_message_names_the_field_that_is_null() -> None:
    bodies = dict(null_bodies(message_class(ApiKey.LIST_OFFSETS, 7, "request")))
    with pytest.raises(WireError, match=r"ListOffsetsTopic\.partitions is null, which it may not be"):
        read_request(ApiKey.LIST_OFFSETS, 7, bodies["topics.partitions"])
    bodies = dict(null_bodies(message_class(ApiKey.METADATA, 12, "request")))
    assert not any(name == "topics" for name in bodies), "null there stands for all topics"


@pytest.mark.parametrize("version", range(3, 14))
def test_the_fast_reader_of_produce_refuses_the_same_nulls(version: int) -> None:
    request_class = message_class(ApiKey.PRODUCE, version, "request")
    read_produce_request(version, memoryview(plain_body(request_class)), 0)
    for _, body in null_bodies(request_class):
        with pytest.raises(WireError):
            read_produce_request(version, memoryview(body), 0)
