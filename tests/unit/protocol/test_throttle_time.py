"""The throttle time of all responses that have one, read and set in their frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from crabka.protocol.apis import SPECS, ApiKey, encode_response, read_response, response_types
from crabka.protocol.headers import pack_response, parse_response_header
from crabka.protocol.throttle_time import throttle_ms_of, with_throttle_ms

CASES = (
    [(ApiKey.PRODUCE, version, {"responses": ()}) for version in (3, 8, 9, 10, 13)]
    + [(ApiKey.FETCH, version, {"error_code": 0, "session_id": 5, "responses": ()}) for version in (4, 7, 12, 16)]
    + [(ApiKey.API_VERSIONS, version, {"error_code": 0, "api_keys": ()}) for version in (1, 3)]
    + [(ApiKey.HEARTBEAT, version, {"error_code": 0}) for version in (1, 4)]
)


def _frame(api_key: ApiKey, version: int, fields: dict[str, Any]) -> bytes:
    message = response_types(int(api_key), version).message(throttle_time=0, **fields)
    return pack_response(int(api_key), version, 77, encode_response(message))


@pytest.mark.parametrize(("api_key", "version", "fields"), CASES)
def test_only_the_time_changes(api_key: ApiKey, version: int, fields: dict[str, Any]) -> None:
    sent = _frame(api_key, version, fields)
    (changed,) = with_throttle_ms(int(api_key), version, (sent,), 1234)
    assert isinstance(changed, bytes)
    assert len(changed) == len(sent)
    correlation_id, offset = parse_response_header(memoryview(changed)[4:], int(api_key), version)
    body = read_response(int(api_key), version, memoryview(changed)[4:], offset)
    assert (correlation_id, body.throttle_time) == (77, timedelta(milliseconds=1234))
    (back,) = with_throttle_ms(int(api_key), version, (changed,), 0)
    assert back == sent


def test_the_records_of_a_fetch_are_not_touched() -> None:
    sent = _frame(ApiKey.FETCH, 12, {"error_code": 0, "session_id": 0, "responses": ()})
    records = memoryview(b"records")
    assert with_throttle_ms(int(ApiKey.FETCH), 12, (sent, records), 5)[1] is records


def test_a_response_that_begins_with_it_names_its_time() -> None:
    sent = _frame(ApiKey.HEARTBEAT, 4, {"error_code": 0})
    assert throttle_ms_of(int(ApiKey.HEARTBEAT), 4, with_throttle_ms(int(ApiKey.HEARTBEAT), 4, (sent,), 9)) == 9


def test_a_response_without_a_time_stays_as_it_is() -> None:
    frame = (_frame_without_time(),)
    assert with_throttle_ms(int(ApiKey.HEARTBEAT), 0, frame, 9) is frame
    assert throttle_ms_of(int(ApiKey.HEARTBEAT), 0, frame) == 0


def _frame_without_time() -> bytes:
    types = response_types(int(ApiKey.HEARTBEAT), 0)
    return pack_response(int(ApiKey.HEARTBEAT), 0, 77, encode_response(types.message(error_code=0)))


def test_every_version_of_every_api_has_a_known_place() -> None:
    for api_key, spec in SPECS.items():
        for version in range(spec.min_version, spec.max_version + 1):
            throttle_ms_of(api_key, version, (bytes(64),))
