"""All recorded frames decode, and encode to the same bytes again."""

from __future__ import annotations

from crabka.protocol.apis import SPECS, ApiKey, encode_message, ms, read_request, read_response
from crabka.protocol.headers import (
    RequestHeader,
    pack_request,
    pack_response,
    parse_request_header,
    parse_response_header,
)
from crabka.protocol.hot import read_produce_request
from tests.support.recorded.wire_frames import RecordedFrame, recorded_frames


def rebuilt_request(frame: RecordedFrame) -> bytes:
    view = memoryview(frame.payload)
    header = parse_request_header(view)
    assert header[:4] == (frame.api_key, frame.api_version, frame.correlation_id, frame.client_id), frame.source
    assert SPECS[header.api_key].request_header_version(header.api_version) == frame.header_version
    body = encode_message(read_request(header.api_key, header.api_version, view, header.body_offset))
    return pack_request(RequestHeader(*header), body)


def rebuilt_response(frame: RecordedFrame) -> bytes:
    view = memoryview(frame.payload)
    correlation_id, offset = parse_response_header(view, frame.api_key, frame.api_version)
    assert correlation_id == frame.correlation_id, frame.source
    assert SPECS[frame.api_key].response_header_flexible(frame.api_version) == (frame.header_version == 1)
    body = encode_message(read_response(frame.api_key, frame.api_version, view, offset))
    return pack_response(frame.api_key, frame.api_version, correlation_id, body)


def test_every_recorded_frame_is_rebuilt_byte_for_byte() -> None:
    frames = recorded_frames()
    assert len(frames) == 1147
    for frame in frames:
        rebuilt = rebuilt_request(frame) if frame.is_request else rebuilt_response(frame)
        assert rebuilt == len(frame.payload).to_bytes(4, "big") + frame.payload, frame.source


def test_recorded_produce_requests_read_by_hand_as_by_kio() -> None:
    frames = [frame for frame in recorded_frames() if frame.is_request and frame.api_key == ApiKey.PRODUCE]
    assert frames
    for frame in frames:
        view = memoryview(frame.payload)
        offset = parse_request_header(view).body_offset
        by_hand = read_produce_request(frame.api_version, view, offset)
        by_kio = read_request(ApiKey.PRODUCE, frame.api_version, view, offset)
        assert (by_hand.acks, by_hand.timeout_ms) == (by_kio.acks, ms(by_kio.timeout))
        assert [[tuple(partition) for partition in topic.partitions] for topic in by_hand.topics] == [
            [(partition.index, partition.records) for partition in topic.partition_data] for topic in by_kio.topic_data
        ]
