from __future__ import annotations

import pytest

from crabka.errors import WireError
from crabka.protocol.api_keys import SPECS, ApiKey
from crabka.protocol.apis import read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import (
    RequestHeader,
    UnsupportedApiError,
    pack_request,
    pack_response,
    pack_unsupported_api_versions,
    parse_request_header,
    parse_response_header,
)


def request_frame(key: int, version: int, client_id: str | None, body: bytes = b"") -> memoryview:
    return memoryview(pack_request(RequestHeader(key, version, 7, client_id, 0), body))[4:]


@pytest.mark.parametrize("client_id", [None, "", "client", "Zürich"])
@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 8), (ApiKey.METADATA, 9), (ApiKey.API_VERSIONS, 3)])
def test_a_packed_header_is_read_back(key: int, version: int, client_id: str | None) -> None:
    frame = request_frame(key, version, client_id, b"body")
    header = parse_request_header(frame)
    assert header[:4] == (key, version, 7, client_id)
    assert bytes(frame[header.body_offset :]) == b"body"


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    head = bytes(request_frame(ApiKey.METADATA, 9, "c"))[:-1]
    frame = memoryview(head + b"\1\5\3abc" + b"body")
    assert bytes(frame[parse_request_header(frame).body_offset :]) == b"body"


@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 8), (ApiKey.METADATA, 9)])
def test_a_header_cut_anywhere_is_a_wire_error(key: int, version: int) -> None:
    frame = request_frame(key, version, "client")
    for length in range(len(frame)):
        with pytest.raises(WireError):
            parse_request_header(frame[:length])


def test_a_client_id_that_is_not_utf8_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="UTF-8"):
        parse_request_header(memoryview(b"\0\3\0\1\0\0\0\7\0\2\xff\xfe"))


@pytest.mark.parametrize(("key", "version"), [(999, 0), (4, 0), (-1, 0), (ApiKey.FETCH, 3), (ApiKey.FETCH, 19)])
def test_unknown_apis_and_versions_are_named(key: int, version: int) -> None:
    frame = memoryview(key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + b"\0\0\0\7\0\1c")
    with pytest.raises(UnsupportedApiError) as caught:
        parse_request_header(frame)
    error = caught.value
    assert (error.api_key, error.api_version, error.correlation_id, error.client_id) == (key, version, 7, "c")
    assert not error.is_api_versions
    assert str(version) in str(error)


def test_a_lookup_can_hide_apis() -> None:
    with pytest.raises(UnsupportedApiError, match="Metadata version 9 is not supported"):
        parse_request_header(request_frame(ApiKey.METADATA, 9, None), lambda _key: None)


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
    with pytest.raises(UnsupportedApiError) as caught:
        parse_request_header(memoryview(b"\0\x12\0\x63\0\0\0\7\xff\xff\0"))
    assert caught.value.is_api_versions
    frame = memoryview(pack_unsupported_api_versions(caught.value.correlation_id))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert parse_response_header(frame[4:], ApiKey.API_VERSIONS, 0) == (7, 4)
    response = read_response(ApiKey.API_VERSIONS, 0, frame[4:], 4)
    assert response.error_code is ErrorCode.unsupported_version
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize(("version", "expected"), [(8, b"\0\0\0\6\0\0\0\7ab"), (9, b"\0\0\0\7\0\0\0\7\0ab")])
def test_responses_get_length_and_header(version: int, expected: bytes) -> None:
    frame = pack_response(ApiKey.METADATA, version, 7, b"ab")
    assert frame == expected
    assert parse_response_header(memoryview(frame)[4:], ApiKey.METADATA, version) == (7, len(frame) - 4 - 2)


def test_a_cut_response_header_is_a_wire_error() -> None:
    for raw in (b"", b"\0\0\0", b"\0\0\0\7", b"\0\0\0\7\1\5\3ab"):
        with pytest.raises(WireError):
            parse_response_header(memoryview(raw), ApiKey.METADATA, 9)
    assert SPECS[ApiKey.METADATA].response_header_flexible(9)
