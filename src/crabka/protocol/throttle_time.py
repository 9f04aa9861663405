"""The throttle time of a response frame: read it, and set it without decoding the rest. PURE.

Almost every response begins with it. Where it stands elsewhere (Produce) the response is decoded and encoded again.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from crabka.protocol.apis import SPECS, encode_response, read_response
from crabka.protocol.headers import pack_response, parse_response_header
from crabka.protocol.schemas import message_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.ports import Buffer, Payload

_FIELD = "throttle_time"
_LENGTH_BYTES = 4
_CORRELATION_BYTES = 4
_NO_TAGS_BYTES = 1
_i32 = struct.Struct(">i")


def throttle_ms_of(api_key: int, version: int, response: Sequence[Payload]) -> int:
    """Return the throttle time that a response begins with; 0 if it begins with something else."""
    offset = _offset(api_key, version)
    return 0 if offset is None else _i32.unpack_from(cast("Buffer", response[0]), offset)[0]


def with_throttle_ms(api_key: int, version: int, response: Sequence[Payload], throttle_ms: int) -> Sequence[Payload]:
    """Return a response of ours with another throttle time; the same one if its version has none."""
    first = cast("Buffer", response[0])
    offset = _offset(api_key, version)
    if offset is not None:
        changed = bytearray(first)
        _i32.pack_into(changed, offset, throttle_ms)
        return (bytes(changed), *response[1:])
    if not _has_throttle_time(api_key, version):
        return response
    frame = memoryview(first)[_LENGTH_BYTES:]
    correlation_id, body_offset = parse_response_header(frame, api_key, version)
    message = read_response(api_key, version, frame, body_offset)
    changed_message = dataclasses.replace(message, throttle_time=timedelta(milliseconds=throttle_ms))
    return (pack_response(api_key, version, correlation_id, encode_response(changed_message)),)


@functools.cache
def _offset(api_key: int, version: int) -> int | None:
    """Return where the throttle time is in the first part of a frame, None unless the body begins with it."""
    if next(iter(_field_names(api_key, version)), "") != _FIELD:
        return None
    header_tags = _NO_TAGS_BYTES if SPECS[api_key].response_header_flexible(version) else 0
    return _LENGTH_BYTES + _CORRELATION_BYTES + header_tags


@functools.cache
def _has_throttle_time(api_key: int, version: int) -> bool:
    return _FIELD in _field_names(api_key, version)


def _field_names(api_key: int, version: int) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(message_class(api_key, version, "response")))
