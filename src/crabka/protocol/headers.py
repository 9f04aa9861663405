"""Request and response headers, and whole frames around bodies.

A frame is a 32-bit length, a header and a body. Request headers of version 2 (KIP-482) end with tagged fields but keep
the client id as a legacy string, so that its position never depends on the version. Header versions 0 belong to
APIs that Kafka 4 no longer has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from crabka.errors import WireError
from crabka.protocol.api_keys import SPECS, ApiKey, ApiSpec
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.wire import skip_tagged_fields

_unpack_request = struct.Struct(">hhih").unpack_from
_unpack_i32 = struct.Struct(">i").unpack_from
_pack_request = struct.Struct(">ihhih").pack
_pack_response = struct.Struct(">ii").pack
_pack_api_versions_v0 = struct.Struct(">iihihhh").pack

# Half the price of a NamedTuple's own constructor.
_new = tuple.__new__

_CLIENT_ID_OFFSET = 10

SpecLookup = Callable[[int], ApiSpec | None]


class UnsupportedApiError(WireError):
    """A request for an API or a version that is not spoken here; the peer's connection is to be closed.

    ApiVersions is the exception: it gets `pack_unsupported_api_versions`.
    """

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        super().__init__(api_key, api_version, correlation_id, client_id)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def is_api_versions(self) -> bool:
        """True if the request has an answer in spite of its version."""
        return self.api_key == ApiKey.API_VERSIONS

    def __str__(self) -> str:
        spec = SPECS.get(self.api_key)
        name = f"API key {self.api_key}" if spec is None else spec.name
        return f"{name} version {self.api_version} is not supported (client {self.client_id!r})"


class RequestHeader(NamedTuple):
    """What precedes the body of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def parse_request_header(frame: memoryview, spec_lookup: SpecLookup = SPECS.get) -> RequestHeader:
    """Read the header of a frame (without its length). Raises WireError, UnsupportedApiError."""
    try:
        api_key, api_version, correlation_id, length = _unpack_request(frame)
        position = _CLIENT_ID_OFFSET
        client_id = None
        if length >= 0:
            position += length
            client_id = str(frame[_CLIENT_ID_OFFSET:position], "utf-8")
        spec = spec_lookup(api_key)
        if spec is None or not spec.min_version <= api_version <= spec.max_version:
            raise UnsupportedApiError(api_key, api_version, correlation_id, client_id)
        if 0 <= spec.first_flexible_version <= api_version:
            position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
    except (IndexError, struct.error) as error:
        raise WireError(f"a request header is cut off after {len(frame)} bytes") from error
    except UnicodeDecodeError as error:
        raise WireError("the client id is not valid UTF-8") from error
    if position > len(frame):
        raise WireError(f"a request header is cut off after {len(frame)} bytes")
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def parse_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id and the offset of the body. Raises WireError."""
    try:
        (correlation_id,) = _unpack_i32(frame)
        flexible = SPECS[api_key].response_header_flexible(api_version)
        position = skip_tagged_fields(frame, 4) if flexible else 4
    except (IndexError, struct.error) as error:
        raise WireError(f"a response header is cut off after {len(frame)} bytes") from error
    if position > len(frame):
        raise WireError(f"a response header is cut off after {len(frame)} bytes")
    return correlation_id, position


def pack_response(api_key: int, api_version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole response frame: length, header and body."""
    if SPECS[api_key].response_header_flexible(api_version):
        return b"%b\0%b" % (_pack_response(len(body) + 5, correlation_id), body)
    return _pack_response(len(body) + 4, correlation_id) + body


def pack_request(header: RequestHeader, body: bytes) -> bytes:
    """Return a whole request frame: length, header and body. The header's body offset is ignored."""
    api_key, api_version, correlation_id, client_id, _ = header
    client = b"" if client_id is None else client_id.encode()
    client_length = -1 if client_id is None else len(client)
    tags = b"\0" if SPECS[api_key].is_flexible(api_version) else b""
    size = _CLIENT_ID_OFFSET + len(client) + len(tags) + len(body)
    return b"%b%b%b%b" % (
        _pack_request(size, api_key, api_version, correlation_id, client_length),
        client,
        tags,
        body,
    )


def pack_unsupported_api_versions(correlation_id: int) -> bytes:
    """Return the frame that answers an ApiVersions request of an unknown version.

    As in Kafka it has version 0, which every client reads, and names only the versions of ApiVersions itself (KIP-511).
    """
    spec = SPECS[ApiKey.API_VERSIONS]
    error_code = ErrorCode.unsupported_version
    return _pack_api_versions_v0(16, correlation_id, error_code, 1, spec.key, spec.min_version, spec.max_version)
